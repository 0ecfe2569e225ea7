/** `npm run cli-page` generates docs/reference/cli.md. With `--check` it fails if the file is out of date. */
import { cliPage } from './cli-page.js'
import { writeOrCheck } from './generated-file.js'

await writeOrCheck('docs/reference/cli.md', cliPage(), 'npm run cli-page')
