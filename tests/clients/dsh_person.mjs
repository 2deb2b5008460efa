// Stands for the person at the page of `dsh web`: writes prompts, types commands, answers the harness's dialogs.
// The test tells it what to do over one long poll after the other, and hears what it was asked and shown.
import { request } from 'node:http'
import { randomUUID } from 'node:crypto'

export const name = 'test-person'
export const inject = ['agents']

export function apply(ctx, { url }) {
  const post = (path, body) => new Promise((resolve, reject) => {
    const going = request(new URL(path, url), { method: 'POST', agent: false, headers: { 'content-type': 'application/json' } }, async response => {
      let text = ''
      for await (const part of response) text += part
      resolve(JSON.parse(text))
    })
    going.on('error', reject)
    going.end(JSON.stringify(body))
  })
  const acts = {
    prompt({ sessionId, text }) {
      const content = Object.freeze([Object.freeze({ type: 'text', text })])
      ctx.agents.get(sessionId).followup(Object.freeze({ role: 'user', id: randomUUID(), source: Object.freeze({ kind: 'user' }), content }))
      return {}
    },
    async type({ sessionId, text }) {
      const done = await ctx.get('commands').execute(ctx.agents.get(sessionId), text, [], AbortSignal.timeout(20000))
      return { shown: JSON.stringify(done) }
    },
    live: () => ({ ids: [...ctx.agents.list()].map(agent => agent.session.id) }),
    placed: async () => ({ placed: JSON.stringify(await ctx.get('sessionController')?.list({}, AbortSignal.timeout(5000)) ?? {}) }),
    dispose: async ({ sessionId }) => { await ctx.agents.get(sessionId)?.dispose?.(); return {} },
  }
  const closing = new AbortController()
  ctx.effect(() => {
    void (async () => {
      while (!closing.signal.aborted) {
        const act = await post('/next', {}).catch(() => undefined)
        if (act === undefined) return
        if (act.op) await post('/done', { id: act.id, ...await (async () => acts[act.op](act))().catch(error => ({ error: `${error.stack}` })) }).catch(() => {})
      }
    })()
    return () => closing.abort()
  })
  ctx.on('approval/request', async (req, next) => {
    const withdrawn = new Promise(resolve => req.signal?.addEventListener('abort', () => resolve('cancelled'), { once: true }))
    const asked = post('/asked', { sessionId: req.agent.session.id, tool: req.toolName, reason: req.reason }).then(answer => answer.outcome)
    const outcome = await Promise.race([withdrawn, asked])
    if (outcome === 'cancelled') await post('/withdrawn', { tool: req.toolName }).catch(() => {})
    return outcome
  })
}
