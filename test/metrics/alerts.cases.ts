/** The alerts of data/alerts.yml: for each, what makes it fire. */

/** Series of a healthy server, in the notation of promtool: start, and step of each minute. */
export const HEALTHY: { readonly [series: string]: string } = {
  'up{job="proxylist",instance="a"}': '1+0x60',
  'process_start_time_seconds{job="proxylist",instance="a"}': '1000+0x60',
  'proxylist_http_requests_total{instance="a",route="/api",status="200"}': '0+6000x60',
  'proxylist_http_requests_total{instance="a",route="/api",status="429",code="DEMO_LIMIT_REACHED"}':
    '0+6000x60',
  'proxylist_http_requests_total{instance="a",route="/api",status="503",code="DB_EXECUTE_FAILED"}':
    '0+0x60',
  'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="0.05"}':
    '0+11990x60',
  'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="0.25"}':
    '0+11995x60',
  'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="+Inf"}':
    '0+12000x60',
  'proxylist_list_rows{instance="a"}': '1000+0x60',
  'proxylist_list_newest_check_age_seconds{instance="a"}': '60+0x60',
  'proxylist_feed_consecutive_failures{instance="a",source="/data"}': '0 1 2 1 0 0+0x60',
  'proxylist_database_up{instance="a",database="access.db"}': '1+0x60',
  'proxylist_database_failures_total{instance="a",database="access.db"}': '0 0 0 2 2+0x60',
  'proxylist_replication_lag_seconds{instance="a"}': '0.5+0x60',
  'proxylist_data_free_bytes{instance="a"}': '5e9+0x60',
  'proxylist_event_loop_lag_seconds_bucket{instance="a",le="0.025"}': '0+599x60',
  'proxylist_event_loop_lag_seconds_bucket{instance="a",le="0.25"}': '0+600x60',
  'proxylist_event_loop_lag_seconds_bucket{instance="a",le="+Inf"}': '0+600x60',
  'process_open_fds{job="proxylist",instance="a"}': '100+0x60',
  'process_max_fds{job="proxylist",instance="a"}': '1000+0x60',
}

type AlertCase = {
  alert: string
  /** Series that take the place of healthy ones. */
  series: { readonly [series: string]: string }
  /** Minutes after which it has not fired yet, and has. */
  quietAt: number
  firesAt: number
  /** Its labels besides instance and severity. */
  labels?: { readonly [label: string]: string }
  severity: 'page' | 'ticket'
}

export const ALERTS: readonly AlertCase[] = [
  {
    alert: 'ProxylistDown',
    series: { 'up{job="proxylist",instance="a"}': '1x9 0x60' },
    ...{ quietAt: 11, firesAt: 12, severity: 'page', labels: { job: 'proxylist' } },
  },
  {
    alert: 'ProxylistRestarts',
    series: {
      'process_start_time_seconds{job="proxylist",instance="a"}': '1000x9 1600 1660 1720 1720x50',
    },
    ...{ quietAt: 11, firesAt: 13, severity: 'page', labels: { job: 'proxylist' } },
  },
  {
    alert: 'ProxylistErrors',
    series: {
      'proxylist_http_requests_total{instance="a",route="/api",status="503",code="DB_EXECUTE_FAILED"}':
        '0+130x60',
    },
    ...{ quietAt: 5, firesAt: 6, severity: 'page' },
  },
  {
    alert: 'ProxylistSlow',
    series: {
      'proxylist_http_request_duration_seconds_bucket{instance="a",route="/api",le="0.05"}':
        '0+11800x60',
    },
    ...{ quietAt: 10, firesAt: 11, severity: 'ticket' },
  },
  {
    alert: 'ProxylistListEmpty',
    series: { 'proxylist_list_rows{instance="a"}': '1000x9 0x60' },
    ...{ quietAt: 14, firesAt: 15, severity: 'page' },
  },
  {
    alert: 'ProxylistListStale',
    series: { 'proxylist_list_newest_check_age_seconds{instance="a"}': '0+60x60' },
    ...{ quietAt: 20, firesAt: 21, severity: 'page' },
  },
  {
    alert: 'ProxylistFeedFailing',
    series: {
      'proxylist_feed_consecutive_failures{instance="a",source="/data"}': '0 1 2 3 4 5+0x60',
    },
    ...{ quietAt: 17, firesAt: 18, severity: 'ticket', labels: { source: '/data' } },
  },
  {
    alert: 'ProxylistDatabaseDown',
    series: { 'proxylist_database_up{instance="a",database="access.db"}': '1x9 0x60' },
    ...{ quietAt: 10, firesAt: 11, severity: 'page', labels: { database: 'access.db' } },
  },
  {
    alert: 'ProxylistDatabaseFailures',
    series: { 'proxylist_database_failures_total{instance="a",database="access.db"}': '0+1x60' },
    ...{ quietAt: 8, firesAt: 10, severity: 'ticket', labels: { database: 'access.db' } },
  },
  {
    alert: 'ProxylistCopiesOld',
    series: { 'proxylist_replication_lag_seconds{instance="a"}': '0.5x9 60+60x50' },
    ...{ quietAt: 14, firesAt: 15, severity: 'ticket' },
  },
  {
    alert: 'ProxylistDiskFull',
    series: { 'proxylist_data_free_bytes{instance="a"}': '2e9-1e8x20' },
    ...{ quietAt: 15, firesAt: 16, severity: 'ticket' },
  },
  {
    alert: 'ProxylistEventLoopLag',
    series: { 'proxylist_event_loop_lag_seconds_bucket{instance="a",le="0.025"}': '0+500x60' },
    ...{ quietAt: 10, firesAt: 11, severity: 'ticket' },
  },
  {
    alert: 'ProxylistFewDescriptors',
    series: { 'process_open_fds{job="proxylist",instance="a"}': '100x9 900x60' },
    ...{ quietAt: 14, firesAt: 15, severity: 'ticket', labels: { job: 'proxylist' } },
  },
]
