// Driver of kafkajs.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Arrivals, Unsupported, bytes, pause, serve, text } from './loop.mjs'

const require = createRequire(join(process.env.NODE_HOME, 'index.js'))
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')
const client = { brokers: process.argv[2].split(','), logLevel: logLevel.NOTHING }
// By default the pause between two tries grows to 30 s.
const kafka = new Kafka({ ...client, retry: { retries: 20, maxRetryTime: 2000 } })
// A member looks for its new coordinator when its tries at the dead one have failed. A try takes as long as a fetch waits.
// It then joins anew, when the session of its former id has ended.
const membership = new Kafka({ ...client, retry: { retries: 5, maxRetryTime: 2000 } })
const prompt = { maxWaitTimeInMs: 500, sessionTimeout: 10000 }
const members = new Map()

const shown = (partition, message) => ({
  partition,
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  key: text(message.key),
  value: text(message.value),
  headers: Object.entries(message.headers ?? {}).map(([name, value]) => [name, text(value)])
})

async function administered (body) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await body(admin)
  } finally {
    await admin.disconnect()
  }
}

async function consuming (groupId, topic, settings = {}) {
  const arrivals = new Arrivals()
  const consumer = membership.consumer({ groupId, ...prompt, ...settings })
  const member = { consumer, arrivals, topic, commits: 0 }
  consumer.on(consumer.events.COMMIT_OFFSETS, () => { member.commits += 1 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => { arrivals.waiting.push(shown(partition, message)) }
  })
  return member
}

await serve({
  version: () => ({ version: require('kafkajs/package.json').version }),

  create_topic: ({ topic, partitions, replication }) => administered(async admin => {
    await admin.createTopics({ topics: [{ topic, numPartitions: partitions, replicationFactor: replication }] })
  }),

  delete_topic: ({ topic }) => administered(async admin => { await admin.deleteTopics({ topics: [topic] }) }),

  topics: () => administered(async admin => ({ topics: await admin.listTopics() })),

  delete_records: ({ topic, before }) => administered(async admin => {
    const partitions = Object.entries(before).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) }))
    await admin.fetchTopicOffsets(topic) // kafkajs needs the topic's metadata from an earlier call
    await admin.deleteTopicRecords({ topic, partitions })
    const found = await admin.fetchTopicOffsets(topic)
    return { low: Object.fromEntries(found.map(each => [each.partition, Number(each.low)])) }
  }),

  async produce ({ topic, records, codec = 'none', pace_ms: pace = 0 }) {
    if (codec !== 'none' && codec !== 'gzip') throw new Unsupported(`kafkajs brings no codec ${codec}`)
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    try {
      const messages = records.map(each => ({
        partition: each.partition,
        timestamp: each.timestamp === null ? undefined : String(each.timestamp),
        key: bytes(each.key),
        value: bytes(each.value),
        headers: Object.fromEntries(each.headers.map(([name, value]) => [name, bytes(value)]))
      }))
      const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
      if (pace === 0) {
        await producer.send({ topic, messages, acks: -1, compression })
      } else {
        for (const message of messages) {
          await producer.send({ topic, messages: [message], acks: -1, compression })
          await pause(pace)
        }
      }
      return { placed: null }
    } finally {
      await producer.disconnect()
    }
  },

  async read ({ topic, partitions, timeout_s: seconds }) {
    const ends = await administered(admin => admin.fetchTopicOffsets(topic))
    const count = ends.filter(each => partitions.includes(each.partition)).reduce((sum, each) => sum + Number(each.high) - Number(each.low), 0)
    const { consumer, arrivals } = await consuming(`reads-${Date.now()}-${Math.random()}`, topic)
    try {
      const records = count === 0 ? [] : await arrivals.take(count, seconds)
      if (records.length < count) throw new Error(`${records.length} records of ${count}`)
      return { records }
    } finally {
      await consumer.disconnect()
    }
  },

  async open ({ name, group, topic, protocol = 'classic' }) {
    if (protocol !== 'classic') throw new Unsupported(`kafkajs has no group protocol ${protocol}`)
    members.set(name, await consuming(group, topic))
  },

  async poll ({ name, count, timeout_s: seconds }) {
    return { records: await members.get(name).arrivals.take(count, seconds), assigned: [], events: [] }
  },

  async commit ({ name }) {
    const member = members.get(name)
    const { consumer, arrivals, topic } = member
    const offsets = [...arrivals.taken].map(([partition, offset]) => ({ topic, partition, offset: String(offset) }))
    for (let tries = 30; ; tries--) {
      try {
        const before = member.commits
        await consumer.commitOffsets(offsets)
        if (member.commits > before) return {}
        // A consumer that is starting again after a failure sends no commit, and tells no failure.
        throw new Error('the consumer sent no commit')
      } catch (error) {
        if (tries === 0) throw error
        await pause(1000)
      }
    }
  },

  async close ({ name }) {
    await members.get(name).consumer.disconnect()
    members.delete(name)
  },

  offsets_for_time: ({ topic, at }) => administered(async admin => {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, at)
    return { offsets: Object.fromEntries(found.map(each => [each.partition, Number(each.offset)])) }
  })
})
