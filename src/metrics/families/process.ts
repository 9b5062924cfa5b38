/** Owns the metrics of the process and of the build. */
import { type Family, histogramSamples, one } from '../family.ts'

export const processFamilies: readonly Family[] = [
  {
    name: 'proxylist_event_loop_lag_seconds',
    type: 'histogram',
    labels: [],
    help: 'How late a timer fired, ten times a second, since the first scrape.',
    read: ({ lags }) => histogramSamples(lags),
  },
  {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    labels: [],
    help: 'Processor time of the process.',
    read: ({ process }) => one(process.cpuSeconds),
  },
  {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    labels: [],
    help: 'Resident memory of the process.',
    read: ({ process }) => one(process.residentBytes),
  },
  {
    name: 'process_start_time_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the process started, in Unix seconds.',
    read: ({ process }) => one(process.startSeconds),
  },
  {
    name: 'process_open_fds',
    type: 'gauge',
    labels: [],
    help: 'Open file descriptors, connections among them.',
    read: ({ process }) => one(process.openFds),
  },
  {
    name: 'process_max_fds',
    type: 'gauge',
    labels: [],
    help: 'Most file descriptors that the process may open.',
    read: ({ process }) => one(process.maxFds),
  },
  {
    name: 'proxylist_build_info',
    type: 'gauge',
    labels: ['version', 'commit', 'bun', 'sqlite'],
    help: 'Always 1; its labels are the versions of the program and of what is built into it.',
    read: ({ build }) => [{ labels: build, value: 1 }],
  },
]
