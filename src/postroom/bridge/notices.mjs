// Tells each session of a DeepSeek Harness what waits in its agent's mail: ids, kinds and senders, at the
// next step of a turn that runs anyway. It asks postroom at that step and keeps nothing, so nothing is lost
// with the harness. It starts no turn, and when postroom is away the user waits for nothing.
import { readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import http from 'node:http'

export const name = 'postroom-notices'
export const inject = ['agents']

const WAIT_MS = 800
const SAID = { 'message.received': 'new mail', 'followup.due': 'follow-up due' }

function waiting(config, session, again) {
  const url = new URL('/api/waiting', config.url)
  url.search = new URLSearchParams({ client: session, again: again ? '1' : '0' })
  const headers = { authorization: `Bearer ${readFileSync(config.token, 'utf8').trim()}` }
  return new Promise((resolve, reject) => {
    // A connection of its own: one kept alive would still lead to a postroom that has gone.
    const request = http.get(url, { headers, agent: false, signal: AbortSignal.timeout(WAIT_MS) }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', part => { text += part })
      response.on('error', reject)
      response.on('end', () => {
        try { resolve(response.statusCode === 200 ? JSON.parse(text).waiting : []) } catch (error) { reject(error) }
      })
    })
    request.on('error', reject)
  })
}

function told(found) {
  const lines = found.map(one => {
    const parts = [`${SAID[one.kind] ?? one.kind} in ${one.inbox_id}`]
    for (const key of ['thread_id', 'message_id', 'from']) if (one[key]) parts.push(`${key} ${one[key]}`)
    return `- ${parts.join(', ')}`
  })
  const count = `${found.length} notice${found.length === 1 ? '' : 's'}`
  return [`postroom: ${count} waiting in your mail. agentmail_get_thread reads a thread.`, ...lines].join('\n')
}

function message(text) {
  return Object.freeze({
    role: 'user', id: randomUUID(), source: Object.freeze({ kind: 'postroom' }),
    content: Object.freeze([Object.freeze({ type: 'text', text })]),
  })
}

export function apply(ctx, config) {
  ctx.on('agent/pre-step', async (input, next) => {
    const decision = await next()
    if (decision.kind === 'reject') return decision
    const found = await waiting(config, input.agent.session.id, input.step === 1).catch(() => [])
    return found.length ? { ...decision, messages: [...decision.messages, message(told(found))] } : decision
  })
}
