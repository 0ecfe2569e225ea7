/** README.md and the reference match the code: their tables list what exists, with its defaults. */
import { join } from 'node:path'
import { defaultLimits, errorCodes, FleetError } from 'gamekeeper'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { dockerBackend } from '../../adapters/docker/index.js'
import { kubernetesBackend } from '../../adapters/kubernetes/index.js'
import { processBackend } from '../../adapters/process/index.js'
import { settings } from '../../src/config/variables.js'
import { allocationStatuses, managementStatuses } from '../../src/http/core/responses.js'
import { conditionTypes } from '../../src/rules/model/resources.js'
import { sizeLimits } from '../../src/rules/model/sizes.js'
import { blocks, code, table } from '../package/pages.js'
import { read, root } from '../package/sources.js'

describe('README.md', () => {
  it('shows one program, which test/e2e/quickstart runs, of fewer than 20 lines', () => {
    const [program = '', ...others] = blocks('README.md', 'js')
    expect(others).toEqual([])
    expect(program.split('\n').filter((line) => line.trim() !== '' && !/^\s*\/\//.test(line)).length).toBeLessThan(20)
  })

  it('names backends that the package exports', () => {
    const { exports }: { exports: object } = JSON.parse(read('package.json'))
    const imports = table('README.md', 'backend').map((row) => code(row[1]).replace('gamekeeper', '.'))
    expect(Object.keys(exports)).toEqual(expect.arrayContaining(imports))
    expect(imports).toHaveLength(4)
  })
})

describe('docs/reference/errors.md', () => {
  it('lists each code, whether it is retryable, and its statuses', () => {
    const rows = table('docs/reference/errors.md', 'code')
    expect(
      rows.map(([name, , retryable, management, allocation]) => [code(name), retryable, management, allocation]),
    ).toEqual(
      errorCodes.map((name) => [
        name,
        new FleetError(name, '').retryable ? 'yes' : 'no',
        String(managementStatuses[name]),
        String(allocationStatuses[name]),
      ]),
    )
  })
})

describe('docs/reference/environment.md', () => {
  it('lists each setting of the bundled server', () => {
    const rows = table('docs/reference/environment.md', 'variable')
    expect(rows.map(([variable, fallback, meaning]) => [code(variable), code(fallback), meaning])).toEqual(
      Object.entries(settings).map(([variable, setting]) => [
        variable,
        'fallback' in setting ? setting.fallback : '',
        setting.meaning,
      ]),
    )
  })
})

describe('docs/reference/options.md', () => {
  it('lists each limit with its default', () => {
    const rows = table('docs/reference/options.md', 'limit')
    const listed = rows.map(([limit, value = '']) => [code(limit), Number(value.replaceAll(',', ''))])
    expect(listed).toEqual(Object.entries(defaultLimits))
  })

  it('lists each size', () => {
    const rows = table('docs/reference/options.md', 'size')
    const listed = rows.map(([size, value = '']) => [code(size), Number(value.replaceAll(',', ''))])
    expect(listed).toEqual(Object.entries(sizeLimits))
  })

  it('lists each option of createFleet', () => {
    const type = /interface FleetOptions \{([^]*?)\n\}/.exec(read('src/contracts/options.ts'))?.[1] ?? ''
    const declared = [...type.matchAll(/^ {2}readonly (\w+)\??:/gm)].map((match) => match[1])
    expect(table('docs/reference/options.md', 'createFleet').map(([option]) => code(option))).toEqual(declared)
  })
})

describe('docs/reference/events.md', () => {
  it('lists each event with its fields', { timeout: 300_000 }, () => {
    const listed = new Map<string, readonly string[]>()
    for (const [type, , fields = ''] of table('docs/reference/events.md', 'event')) {
      listed.set(code(type), [...fields.matchAll(/`(\w+)`/g)].map(([, field = '']) => field).toSorted())
    }
    expect(listed).toEqual(eventFields())
  })
})

describe('docs/reference/conditions.md', () => {
  it('lists each condition', () => {
    const listed = table('docs/reference/conditions.md', 'condition').map(([type]) => code(type))
    expect(listed).toEqual(conditionTypes)
  })
})

describe('docs/reference/backends.md', () => {
  it.each([
    ['processBackend', processBackend],
    ['dockerBackend', dockerBackend],
    ['kubernetesBackend', kubernetesBackend],
  ])('lists each option of %s', (name, makeBackend) => {
    const listed = table('docs/reference/backends.md', name).map(([option]) => code(option))
    const unknown: object = { 'no such option': 1 }
    expect(() => makeBackend(unknown)).toThrow(`known options: ${listed.join(', ')}`)
  })
})

/** Each event type with the fields that only it has, as the compiler sees them. */
function eventFields(): ReadonlyMap<string, readonly string[]> {
  const config = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path))
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root)
  const file = join(root, 'src/contracts/events.ts')
  const program = ts.createProgram([file], options)
  const checker = program.getTypeChecker()
  const declaration = program
    .getSourceFile(file)
    ?.statements.find((statement) => ts.isTypeAliasDeclaration(statement) && statement.name.text === 'FleetEvent')
  if (!declaration) throw new Error('src/contracts/events.ts declares no FleetEvent')
  const type = checker.getTypeAtLocation(declaration)
  const common = new Set(['type', 'at', 'message', 'build', 'server', 'seq'])
  const fields = new Map<string, readonly string[]>()
  for (const member of type.isUnion() ? type.types : [type]) {
    const own = checker.getPropertiesOfType(member).map((property) => property.name)
    const typeField = member.getProperty('type')
    if (!typeField) throw new Error('an event has no type')
    const names = checker.getTypeOfSymbolAtLocation(typeField, declaration)
    for (const one of names.isUnion() ? names.types : [names]) {
      if (one.isStringLiteral()) fields.set(one.value, own.filter((field) => !common.has(field)).toSorted())
    }
  }
  return fields
}
