/** `npm run openapi` generates docs/openapi.json. With `--check` it fails if the file is out of date. */
import { openApiDocument } from '../src/http/openapi/document.js'
import { writeOrCheck } from './generated-file.js'

await writeOrCheck('docs/openapi.json', JSON.stringify(openApiDocument()), 'npm run openapi')
