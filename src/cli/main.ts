#!/usr/bin/env node
/** The command `gamekeeper`. Only this file ends the process. */
import { run } from './run.js'
import { processTerminal } from './terminal.js'

const exit = (code: number) => process.exit(code)
exit(await run(process.argv.slice(2), processTerminal(exit)))
