/** The dashboard: one page that shows a fleet and acts on it, served beside the HTTP APIs that it calls. */
export { dashboardPage } from './page-group.js'
export { dashboardRoutes, type DashboardRoutesOptions } from './routes.js'
