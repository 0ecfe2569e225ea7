/** The dashboard's page. */
import { render } from 'preact'
import { connect } from './data/live.js'
import { App } from './views/app.js'

const root = document.getElementById('app')
if (root) {
  root.textContent = ''
  connect()
  render(<App />, root)
}
