// postroom in a person's own DeepSeek Harness. The plugin connects out to the daemon and never listens; it
// decides nothing and keeps nothing: whatever is lost here, the daemon offers again, and the session's own
// log tells which notices it has. With the daemon away the harness works on, and nothing is sent.
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { request } from 'node:http'
import { randomUUID } from 'node:crypto'

export const name = 'postroom'
export const inject = ['agents', 'systemPrompt', 'tools']

const SILENCE_MS = 45_000 // the daemon writes an empty line more often than this
const PULL_MS = 800
const AGAIN_MS = [200, 500, 1000, 2000, 5000]
const AWAY = 'postroom is not running; nothing was sent'
const NOT_READ = new Set(['error', 'interrupted', 'blocked']) // ends of a turn after which its notices are offered again

const sleep = (ms, signal) => new Promise(done => {
  const timer = setTimeout(done, ms)
  signal?.addEventListener('abort', () => { clearTimeout(timer); done() }, { once: true })
})
const failure = (name, text) => Object.assign(new Error(text), { name })

// Notices as one message, so that a turn takes them together and in order. Their ids lie in its source: a log tells what is in it.
const message = notices => Object.freeze({
  role: 'user', id: randomUUID(),
  source: Object.freeze({
    kind: 'webhook', by: 'postroom', form: 'notice', summary: 'Mail',
    notices: Object.freeze(notices.map(one => one.id)), seq: Math.max(...notices.map(one => one.seq)),
  }),
  content: Object.freeze(notices.map(({ text }) => Object.freeze({ type: 'text', text }))),
})
const holds = (one, id) => one.source?.by === 'postroom' && one.source.notices.includes(id)

export function apply(ctx, config) {
  const token = readFileSync(config.token, 'utf8').trim()
  const manifest = JSON.parse(readFileSync(config.manifest, 'utf8'))
  const has = part => config.parts.includes(part)
  const log = text => ctx.logger?.(name)?.info?.(text)

  // ---- the way to the daemon; a connection for each request, as one kept alive would lead to a daemon that has gone
  const open = (verb, body, signal) => new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const going = request(new URL(`/bridge/${verb}`, config.url), { method: 'POST', headers, agent: false, signal }, resolve)
    going.on('error', reject)
    going.end(JSON.stringify(body))
  })
  async function ask(verb, body, signal) {
    const response = await open(verb, body, signal)
    let text = ''
    response.setEncoding('utf8')
    for await (const part of response) text += part
    const answer = JSON.parse(text)
    if (response.statusCode !== 200) throw Object.assign(new Error(answer.message ?? `postroom answered ${response.statusCode}`), { told: true })
    return answer
  }
  async function insist(verb, body, signal) { // only what the daemon knows by its key
    for (let attempt = 0; ; attempt++) {
      try { return await ask(verb, body, signal) } catch (error) {
        if (error.told || signal?.aborted) throw error
        if (attempt === 4) throw new Error(AWAY)
        await sleep(AGAIN_MS[attempt], signal)
      }
    }
  }

  // ---- sessions
  const owned = new Map() // session id -> the handle of a session made or resumed here
  const unplaced = new Set() // new sessions that have had no turn

  async function composition(wanted) { // what the harness gives a session of its own: a model, and a preset with its tools
    const presets = ctx.get('agentPresets') // only `dsh web` has them
    const model = ctx.get('agentDefaultModel')?.currentSelection?.()
    const preset = presets && (await presets.resolve(wanted)).id
    return {
      preset,
      options: {
        ...(model && { agentOptions: { provider: model.provider, model: model.model } }),
        ...(preset && { setup: async agentCtx => { await presets.mount(agentCtx, preset) } }),
      },
    }
  }

  async function resume(sessionId, stored) {
    const { options } = await composition(stored.header.agentPreset)
    try {
      owned.set(sessionId, await ctx.agents.resume({ resumeSessionId: sessionId, ...options }))
    } catch (error) {
      if (error.name !== 'SessionAlreadyOwnedError') throw error
      for (let i = 0; i < 20 && !ctx.agents.get(sessionId); i++) await sleep(100) // the person opens it at this moment
      if (!ctx.agents.get(sessionId)) throw error // another process has it
    }
  }

  async function create(sessionId, title) {
    const { preset, options } = await composition()
    await mkdir(config.cwd, { recursive: true })
    const handle = await ctx.agents.create({ sessionId, meta: { cwd: config.cwd, ...(preset && { agentPreset: preset }) }, ...options })
    owned.set(sessionId, handle)
    unplaced.add(sessionId)
    if (title) ctx.get('sessionTitle')?.rename(handle.agent.session, title)
  }

  // The web page takes a session without a turn for its own "New Session", and would put the person's next prompt into it.
  async function place(session) {
    const workspace = await ctx.get('workspaceRegistry')?.create(session.header.cwd, 'Mail')
    await workspace?.attachSession(session.id)
  }

  async function relist(sessionId) { // an open page drops a session that is closed
    const rows = await ctx.get('sessionController')?.list({}, AbortSignal.timeout(5000))
    const row = rows?.items.find(item => item.sessionId === sessionId)
    if (row && !ctx.agents.get(sessionId)) ctx.emit('api-session/added', row)
  }

  const joining = new Map() // session id -> notices on their way into its step
  const queue = agent => [...agent.inbox.nextStep, ...agent.inbox.nextTurn]
  function standing(agent, id) { // of a notice in a session: undefined (to be told), queued, running or read
    if (queue(agent).some(one => holds(one, id))) return 'queued'
    if (joining.get(agent.session.id)?.includes(id)) return 'running'
    let state
    for (const event of agent.session.snapshotEvents()) {
      if (event.type === 'user/message' && holds(event.data, id)) state = 'running'
      else if (event.type === 'turn/end' && state === 'running') state = NOT_READ.has(event.data.reason?.kind) ? undefined : 'read'
    }
    return state === 'running' && agent.status === 'idle' ? undefined : state // its turn ended with its process
  }

  const onDisk = async session => { await ctx.get('sessions')?.flush(session) } // a log is written a little after its turn

  const ops = {
    async open({ sessionId, title }) {
      if (ctx.agents.get(sessionId)) return { branch: 'live' }
      const stored = await ctx.get('sessionPersistence')?.stat(sessionId)
      await (stored ? resume(sessionId, stored) : create(sessionId, title))
      return { branch: stored ? 'resumed' : 'created' }
    },
    async deliver({ sessionId, notices, wake }) {
      const agent = ctx.agents.get(sessionId)
      if (!agent) throw failure('NotLive', 'the session is not live')
      const states = notices.map(one => standing(agent, one.id))
      const fresh = notices.filter((_, at) => !states[at])
      if (fresh.length) agent[wake ? 'steer' : 'inject'](message(fresh))
      else if (wake && agent.status === 'idle' && states.includes('queued')) {
        agent.steer(message([{ id: randomUUID(), seq: 0, text: 'postroom: the mail above is new.' }]))
      }
      const read = states.every(state => state === 'read')
      if (read) await onDisk(agent.session)
      return { read }
    },
    async dispose({ sessionId }) {
      const handle = owned.get(sessionId)
      const idle = handle?.agent.status === 'idle' && queue(handle.agent).every(one => one.source?.by === 'postroom')
      if (!idle) return { disposed: false }
      await handle.dispose()
      await relist(sessionId).catch(error => log(`relist: ${error}`))
      return { disposed: true }
    },
  }

  if (has('inbound')) {
    const closing = new AbortController()
    const run = async ({ id, op, ...command }) => {
      const answer = await ops[op](command).catch(error => ({ error: error.name, text: error.message }))
      await ask('done', { id, ...answer }).catch(() => {}) // lost: the daemon offers the same again
    }
    const listen = async () => {
      const stop = new AbortController()
      let watchdog
      const alive = () => { clearTimeout(watchdog); watchdog = setTimeout(() => stop.abort(), SILENCE_MS) }
      alive()
      try {
        const profile = ctx.get('profileContext')?.name ?? ''
        const response = await open('commands', { profile }, AbortSignal.any([stop.signal, closing.signal]))
        if (response.statusCode !== 200) throw new Error(`postroom answered ${response.statusCode}`)
        response.setEncoding('utf8')
        let rest = ''
        for await (const part of response) {
          alive()
          const lines = (rest + part).split('\n')
          rest = lines.pop()
          for (const line of lines) if (line) void run(JSON.parse(line))
        }
        return true
      } finally { clearTimeout(watchdog) }
    }
    ctx.effect(() => {
      void (async () => {
        for (let failures = 0; !closing.signal.aborted; failures++) {
          if (await listen().catch(() => false)) failures = 0
          await sleep(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)], closing.signal)
        }
      })()
      return () => closing.abort()
    }, 'postroom.commands')

    const inTurn = new Map() // session id -> the last of our notices its turn has
    ctx.on('agent/disposed', ({ agent }) => { for (const each of [owned, unplaced, inTurn, joining]) each.delete(agent.session.id) })
    ctx.on('session/event', (session, event) => {
      if (event.type === 'turn/end' || (event.type === 'user/message' && event.data.source?.by === 'postroom')) joining.delete(session.id)
      if (event.type === 'turn/start' && unplaced.delete(session.id)) void place(session).catch(error => log(`workspace: ${error}`))
      if (event.type === 'user/message' && event.data.source?.by === 'postroom') {
        inTurn.set(session.id, Math.max(inTurn.get(session.id) ?? 0, event.data.source.seq ?? 0))
      } else if (event.type === 'turn/end' && inTurn.has(session.id)) {
        const seq = inTurn.get(session.id)
        inTurn.delete(session.id)
        const read = !NOT_READ.has(event.data.reason?.kind)
        void onDisk(session).then(() => read, () => false).then(kept => ask('ended', { sessionId: session.id, seq, read: kept })).catch(() => {})
      }
    })
    ctx.on('agent/pre-step', async (input, next) => {
      const decision = await next()
      const { agent, step } = input
      if (decision.kind === 'reject' || agent.session.header.origin === 'subagent') return decision
      const asked = { sessionId: agent.session.id, again: step === 1 }
      const { notices } = await ask('pending', asked, AbortSignal.timeout(PULL_MS)).catch(() => ({ notices: [] }))
      const fresh = notices.filter(({ id }) => !decision.messages.some(one => holds(one, id)) && !standing(agent, id))
      if (!fresh.length) return decision
      joining.set(agent.session.id, fresh.map(one => one.id))
      return { ...decision, messages: [...decision.messages, message(fresh)] }
    })
  }

  // ---- what the model has. The manifest lies beside, so that a prompt does not depend on the daemon being up.
  void ask('manifest', {}).then(now => {
    if (JSON.stringify(now) !== JSON.stringify(manifest)) writeFileSync(config.manifest, JSON.stringify(now), { mode: 0o600 }) // for the next start
  }).catch(() => {})

  if (has('identity')) {
    const thread = id => id?.startsWith(manifest.prefix) ? ` This session belongs to thread_id ${id.slice(manifest.prefix.length)}.` : ''
    ctx.effect(() => ctx.systemPrompt.section({
      name: 'postroom:identity', order: 120, interpolate: false, text: ({ agent } = {}) => manifest.prompt + thread(agent?.session.id),
    }))
  }

  const held = new Map() // call -> the mail frozen for it, which a person is asked about
  const key = (sessionId, callId) => `${sessionId}/${callId}`
  if (has('tools')) {
    const output = {
      schema: { type: 'object', properties: { text: { type: 'string' }, data: {} }, required: ['text'], additionalProperties: false },
      render: (_arguments, value) => [{ type: 'text', text: value.text }],
    }
    for (const { name: tool, description, parameters } of manifest.tools) {
      const execute = async (given, exec) => {
        const call = { sessionId: exec.agent?.session.id, callId: exec.callId }
        const frozen = held.get(key(call.sessionId, call.callId))
        held.delete(key(call.sessionId, call.callId))
        const answer = frozen ? await insist('outcome', frozen, exec.signal)
          : await insist('tool', { ...call, name: tool, arguments: given }, exec.signal)
        if (answer.error) throw new Error(answer.text)
        return { text: answer.text, data: answer.data }
      }
      ctx.tools.register({ name: tool, description, parameters, output, execute })
    }
  }

  // ---- a person's yes or no. The mail is frozen at the daemon before it is shown; the daemon decides what a click is worth.
  if (has('approval')) {
    ctx.on('tools/pre-execute', async (exec, next) => {
      const decision = await next()
      if (decision.kind !== 'allow' || !manifest.asks.includes(exec.name)) return decision
      const call = { sessionId: exec.agent?.session.id, callId: exec.callId, name: exec.name, arguments: exec.arguments }
      try {
        const { question, ...frozen } = await insist('question', call, exec.signal)
        if (!question) return decision
        held.set(key(call.sessionId, call.callId), frozen)
        return { kind: 'ask', reason: question }
      } catch (error) { return { kind: 'deny', reason: error.message } }
    })
    const elsewhere = async (frozen, signal) => { // until the owner decides at another door
      while (!signal.aborted && !(await insist('decided', frozen, signal)).decided);
    }
    ctx.on('approval/request', async (req, next) => {
      const call = key(req.agent.session.id, req.callId)
      const frozen = held.get(call)
      if (!frozen) return next()
      const withdraw = new AbortController() // the dialog lives as long as the request's signal: give it one that can end
      req.signal = AbortSignal.any([withdraw.signal, ...(req.signal ? [req.signal] : [])])
      const outside = elsewhere(frozen, req.signal).then(() => 'decided', () => new Promise(() => {}))
      const outcome = await Promise.race([next().catch(() => 'unavailable'), outside])
      withdraw.abort()
      if (outcome === 'allowed-once' || outcome === 'rejected') {
        await insist('answer', { ...frozen, allowed: outcome === 'allowed-once' }).catch(error => log(`answer: ${error.message}`))
      }
      if (outcome !== 'rejected' && outcome !== 'cancelled') return 'allowed-once' // the tool only tells what became of the mail
      held.delete(call)
      return outcome
    }, { prepend: true })
  }

  // ---- commands of the mailbox, in profiles that have commands
  ctx.inject(['commands'], child => {
    for (const { name: command, description, hint } of manifest.commands) {
      child.commands.register({
        name: command, description, ...(hint && { input: { hint } }),
        handler: async ({ agent, rawInput, signal }) => ask('command', { name: command, input: rawInput.trim(), sessionId: agent.session.id }, signal)
          .then(({ text, error }) => ({ kind: error ? 'error' : 'success', text }), error => ({ kind: 'error', text: error.told ? error.message : AWAY })),
      })
    }
  })
}
