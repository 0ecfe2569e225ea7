/** A process that opens connections to a server and lets them be: `node idle-connections.mjs <url> <count>`. */
import { connect } from 'node:net'

const [, , url = '', count = '0'] = process.argv
const { hostname, port } = new URL(url)
const request = 'GET /api/v1/allocate HTTP/1.1\r\nHost: a\r\n\r\n'
let open = 0

/**
 * Half of them have asked something before, and are kept for more.
 *
 * @param {number} index
 */
function next(index) {
  if (index >= Number(count)) return
  const socket = connect(Number(port), hostname)
  socket.on('error', (error) => {
    console.error(error)
    process.exit(1)
  })
  const done = () => {
    open++
    if (open === Number(count)) process.send?.('open')
    next(index + 50)
  }
  if (index % 2 === 0) socket.once('connect', done)
  else {
    socket.write(request)
    socket.once('data', done)
  }
}

for (let index = 0; index < 50; index++) next(index)
