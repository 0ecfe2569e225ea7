/** The dashboard as `serve` sees it, which does not depend on it. */
import type { GuardOptions } from '../access/guard.js'
import type { RouteGroup } from '../routes/routes.js'

/** What `dashboardPage()` from `gamekeeper/dashboard` returns. */
export interface DashboardPage {
  /** @internal */
  readonly group: (options: GuardOptions) => RouteGroup
}
