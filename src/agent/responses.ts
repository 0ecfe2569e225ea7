/** Sends the responses of the agent. */
import type { ServerResponse } from 'node:http'
import { ascii } from './answer.js'

export function refuse(response: ServerResponse, status: number, message: string): void {
  send(response, status, ascii(JSON.stringify({ error: message })))
}

/** `text` must be ASCII: its length is used as the length in bytes. */
export function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': text.length,
  })
  response.end(text)
}
