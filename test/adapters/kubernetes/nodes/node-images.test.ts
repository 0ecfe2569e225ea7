/** Which images a node has, by what its kubelet lists and what the fleet has pulled. */
import { describe, expect, it } from 'vitest'
import { canonicalImage, NodeImages } from '../../../../adapters/kubernetes/nodes/node-images.js'

const digest = `sha256:${'ab'.repeat(32)}`

describe('the canonical name of an image', () => {
  it.each([
    ['arena', 'docker.io/library/arena:latest'],
    ['arena:1', 'docker.io/library/arena:1'],
    ['docker.io/arena:1', 'docker.io/library/arena:1'],
    ['docker.io/library/arena:1', 'docker.io/library/arena:1'],
    ['studio/arena:1', 'docker.io/studio/arena:1'],
    ['registry.example/arena', 'registry.example/arena:latest'],
    ['registry.example:5000/studio/arena:1', 'registry.example:5000/studio/arena:1'],
    ['localhost/arena:1', 'localhost/arena:1'],
    [`registry.example/arena@${digest}`, `registry.example/arena@${digest}`],
    [`registry.example/arena:1@${digest}`, `registry.example/arena@${digest}`],
    ['<none>:<none>', undefined],
  ])('of %s is %s', (image, name) => expect(canonicalImage(image)).toBe(name))
})

const listOf = (...images: readonly string[]) => images.map((name) => ({ names: [name] }))
const arena = 'docker.io/library/arena:1'

describe('a node', () => {
  it('has the images that its kubelet lists, under each of their names', () => {
    const images = new NodeImages()
    expect(images.report([{ names: [`arena@${digest}`, 'arena:1'] }, {}])).toEqual([])
    expect(images.has(arena)).toBe(true)
    expect(images.has(`docker.io/library/arena@${digest}`)).toBe(true)
    expect(images.has('docker.io/library/arena:2')).toBe(false)
  })

  it('has an image that was pulled, even if its kubelet never lists it', () => {
    const images = new NodeImages()
    images.report(listOf('other:1'))
    images.add(arena)
    expect(images.report(listOf('another:1'))).toEqual(['docker.io/library/other:1'])
    expect(images.has(arena)).toBe(true)
  })

  it('has lost an image that is no longer listed', () => {
    const images = new NodeImages()
    images.add(arena)
    images.report(listOf('arena:1', 'other:1'))
    expect(images.report(listOf('other:1'))).toEqual([arena])
    expect(images.has(arena)).toBe(false)
  })

  it('may still have a pulled image that a full list no longer names', () => {
    const images = new NodeImages()
    images.add(arena)
    images.report(listOf('arena:1'))
    const others = Array.from({ length: 50 }, (_, i) => `other:${i}`)
    expect(images.report(listOf(...others))).toEqual([])
    expect(images.has(arena)).toBe(true)
  })
})
