/**
 * `npm run openapi` writes docs/openapi.json, the document that all routes together serve at `/openapi.json`. With
 * `--check` it only says whether what lies there is that.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { format, resolveConfig } from 'prettier'
import { openApiDocument } from '../src/http/openapi/document.js'

const file = fileURLToPath(new URL('../docs/openapi.json', import.meta.url))
const text = await format(JSON.stringify(openApiDocument()), { ...(await resolveConfig(file)), filepath: file })

if (!process.argv.includes('--check')) await writeFile(file, text)
else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
  console.error('docs/openapi.json is not what the routes serve: npm run openapi')
  process.exitCode = 1
}
