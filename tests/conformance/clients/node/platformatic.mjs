// Driver of @platformatic/kafka.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Arrivals, bytes, pause, serve, text } from './loop.mjs'

const require = createRequire(join(process.env.NODE_HOME, 'index.js'))
const home = join(process.env.NODE_HOME, 'node_modules', '@platformatic', 'kafka')
const { Admin, Consumer, Producer } = await import(pathToFileURL(join(home, 'dist', 'index.js')))
const base = { clientId: 'conformance', bootstrapBrokers: process.argv[2].split(','), retries: 60, retryDelay: 500 }
const members = new Map()

const shown = message => ({
  partition: message.partition,
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  key: text(message.key),
  value: text(message.value),
  headers: message.headerEntries.map(([name, value]) => [name.toString(), text(value)])
})

async function used (client, body) {
  try {
    return await body(client)
  } finally {
    await client.close()
  }
}

const administered = body => used(new Admin(base), body)

async function consuming (groupId, topic, settings, mode) {
  const arrivals = new Arrivals()
  const consumer = new Consumer({ ...base, groupId, ...settings })
  const stream = await consumer.consume({ topics: [topic], autocommit: false, mode, fallbackMode: 'earliest', maxWaitTime: 500 })
  stream.on('data', message => {
    arrivals.epoch = message.leaderEpoch
    arrivals.waiting.push(shown(message))
  })
  stream.on('error', error => { arrivals.error = error })
  return { consumer, stream, arrivals, topic }
}

async function ended ({ consumer, stream }) {
  await stream.close()
  await consumer.close(true)
}

const offsets = (topic, timestamp) => used(
  new Consumer({ ...base, groupId: 'offsets' }),
  async consumer => (await consumer.listOffsets({ topics: [topic], timestamp })).get(topic).map(Number)
)

await serve({
  version: () => ({ version: require(join(home, 'package.json')).version }),

  create_topic: ({ topic, partitions, replication }) => administered(async admin => {
    await admin.createTopics({ topics: [topic], partitions, replicas: replication })
  }),

  delete_topic: ({ topic }) => administered(async admin => { await admin.deleteTopics({ topics: [topic] }) }),

  topics: () => administered(async admin => ({ topics: await admin.listTopics() })),

  delete_records: ({ topic, before }) => administered(async admin => {
    const partitions = Object.entries(before).map(([partition, offset]) => ({ partition: Number(partition), offset: BigInt(offset) }))
    const done = await admin.deleteRecords({ topics: [{ name: topic, partitions }] })
    return { low: Object.fromEntries(done[0].partitions.map(each => [each.partition, Number(each.lowWatermark)])) }
  }),

  produce: ({ topic, records, codec = 'none', pace_ms: pace = 0 }) => used(
    new Producer({ ...base, idempotent: true, acks: -1, compression: codec }),
    async producer => {
      const messages = records.map(each => ({
        topic,
        partition: each.partition,
        timestamp: each.timestamp === null ? undefined : BigInt(each.timestamp),
        key: bytes(each.key) ?? undefined,
        value: bytes(each.value) ?? undefined,
        headers: new Map(each.headers.map(([name, value]) => [Buffer.from(name), bytes(value)]))
      }))
      if (pace === 0) {
        await producer.send({ messages })
      } else {
        for (const message of messages) {
          await producer.send({ messages: [message] })
          await pause(pace)
        }
      }
      return { placed: null }
    }
  ),

  async read ({ topic, partitions, timeout_s: seconds }) {
    const [lows, highs] = [await offsets(topic, -2n), await offsets(topic, -1n)]
    const count = partitions.reduce((sum, each) => sum + highs[each] - lows[each], 0)
    const member = await consuming(`reads-${Date.now()}-${Math.random()}`, topic, {}, 'earliest')
    try {
      const records = count === 0 ? [] : await member.arrivals.take(count, seconds)
      if (records.length < count) throw member.arrivals.error ?? new Error(`${records.length} records of ${count}`)
      return { records }
    } finally {
      await ended(member)
    }
  },

  async open ({ name, group, topic, protocol = 'classic' }) {
    members.set(name, await consuming(group, topic, { groupProtocol: protocol }, 'committed'))
  },

  async poll ({ name, count, timeout_s: seconds }) {
    const { arrivals } = members.get(name)
    const records = await arrivals.take(count, seconds)
    if (records.length < count && arrivals.error) throw arrivals.error
    return { records, assigned: [], events: [] }
  },

  async commit ({ name }) {
    const { consumer, arrivals, topic } = members.get(name)
    const taken = [...arrivals.taken].map(([partition, offset]) => ({ topic, partition, offset: BigInt(offset), leaderEpoch: arrivals.epoch }))
    await consumer.commit({ offsets: taken })
  },

  async close ({ name }) {
    await ended(members.get(name))
    members.delete(name)
  },

  async offsets_for_time ({ topic, at }) {
    return { offsets: Object.fromEntries((await offsets(topic, BigInt(at))).map((offset, each) => [each, offset])) }
  }
})
