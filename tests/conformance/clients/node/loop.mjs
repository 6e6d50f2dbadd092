// The frame of a driver: one JSON request a line in, one JSON answer a line out.

import { createInterface } from 'node:readline'

export class Unsupported extends Error {}

export const bytes = text => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
export const text = value => (value === null || value === undefined ? null : value.toString('base64'))
export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

export async function serve (driver) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { op, ...request } = JSON.parse(line)
    let answer
    try {
      if (driver[op] === undefined) throw new Unsupported(`the driver has no operation ${op}`)
      answer = { ok: true, ...(await driver[op](request)) }
    } catch (error) {
      const causes = [error, ...(error.errors ?? [])].map(each => each.message)
      answer = { ok: false, unsupported: error instanceof Unsupported, error: causes.join(': ') }
    }
    console.log(JSON.stringify(answer))
  }
  process.exit(0)
}

// Records that arrived and that nothing has taken yet.
export class Arrivals {
  waiting = []
  taken = new Map()

  // The next records up to `count` (0: all that come in the time), in the order of their arrival.
  async take (count, seconds) {
    const deadline = Date.now() + seconds * 1000
    const records = []
    while ((count === 0 || records.length < count) && Date.now() < deadline) {
      const next = this.waiting.shift()
      if (next === undefined) {
        await pause(20)
        continue
      }
      // A member that joins again reads again what was not committed.
      this.taken.set(next.partition, Math.max(next.offset + 1, this.taken.get(next.partition) ?? 0))
      records.push(next)
    }
    return records
  }
}
