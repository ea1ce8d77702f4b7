import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { loadHostKey } from '../../src/signing/host-key.ts';
import { Store } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { ChangeActor, contentOf } from '../support/kills/change-actor.ts';
import { CredentialActor } from '../support/kills/credential-actor.ts';
import { ExternalActor } from '../support/kills/external-actor.ts';
import { type Actor, Gone, HostClient } from '../support/kills/host-client.ts';
import { actsByVerb, expectInvariants } from '../support/kills/invariants.ts';
import { killCount, killsOn, pause, randomFrom, report } from '../support/kills/process.ts';
import { RunActor } from '../support/kills/run-actor.ts';
import { StoredActor, workflowSource } from '../support/kills/stored-actor.ts';
import { StreamActor } from '../support/kills/stream-actor.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';
import { rounds } from '../support/tier.ts';

const model = 'scripted';
const inputGate = 'gate = { kind = "input", schema = { type = "object" } }';
const eventGate = 'gate = { kind = "event", name = "user.go" }';
const armedEntry = '[entry]\nkind = "armed"\n';

describeDatabases('a host that is killed while it acts', (url, kind) => {
  const kills = killCount(kind === 'sqlite' ? rounds(5, 2) : 3);
  const folder = join(freshDataDir(), 'written');
  mkdirSync(folder);
  let script: Awaited<ReturnType<typeof scriptedOpenAi>> | undefined;
  let host: HostProcess | undefined;
  afterAll(async () => {
    await host?.end();
    await script?.close();
  });

  it.runIf(killsOn(kind))(`${kills} times`, { timeout: 600_000 + kills * 20_000 }, async () => {
    script = await scriptedOpenAi(({ body: { messages } }) => {
      const writes = messages.some(({ content }) => content?.includes('WRITE'));
      if (!writes || messages.some(({ role }) => role === 'tool')) return { text: 'Done.', chunkMs: 2 };
      const path = join(folder, `${crypto.randomUUID()}.txt`);
      return {
        calls: [{ name: 'fs_write', arguments: { path, content: contentOf(path), intent: 'to write' } }],
      };
    });
    const dataDir = freshDataDir();
    const config = join(dataDir, 'lathe.toml');
    writeFileSync(config, `[gateway]\nurl = "${script.url}"\nmodels = ["${model}"]\n`);
    const database = await url();
    const ports = ['--port', '0', '--control-port', '0'];
    const args = [
      ...ports,
      '--heartbeat-secs',
      '600',
      '--data-dir',
      dataDir,
      '--database',
      database,
      '--config',
      config,
    ];
    const start = () => startSource([...args, '--enable-all-workflows']);

    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const client = new HostClient();
    const actors: Actor[] = [
      // The first, because it lets paused runs go on, whose streams have no end.
      new RunActor(client),
      new StoredActor(client, model),
      new ExternalActor(client),
      new StreamActor(client),
      new ChangeActor(client),
      new CredentialActor(client),
    ];
    const killed = { starting: 0, acting: 0 };
    let acted: Readonly<Record<string, number>> = {};
    for (let round = 0; round <= kills; round++) {
      client.about = `seed ${seed}, after ${round} kills`;
      if (round % 4 === 3) {
        const early = start();
        await pause(random(900));
        early.kill('SIGKILL');
        await early.exit;
        killed.starting++;
      }
      host = start();
      client.url = await host.url();
      client.control = (await host.waitFor('stdout', /control at (http:\/\/[^)]+)\)/))[1] ?? '';
      client.operator = { 'x-svc-operator': readFileSync(join(dataDir, 'operator.token'), 'utf8').trim() };
      if (round === 0) await prepare(client, folder);
      await quiet(client);
      for (const actor of actors) {
        await actor.check();
        await quiet(client);
      }
      const { endpoint_id: endpointId } = await client.json('GET', '/host/v1/info');
      const store = await Store.open({ url: database, endpointId: String(endpointId) });
      await expectInvariants(store, (await loadHostKey(dataDir)).publicKey, client.about);
      for (const actor of actors) await actor.checkStored?.(store);
      if (round === kills) acted = await actsByVerb(store);
      await store.close();
      const acts = round === kills ? [] : actors.flatMap((actor) => actor.acts);
      const acting = Promise.allSettled(acts.map(untilGone));
      const before = client.acknowledged;
      while (acts.length > 0 && client.acknowledged === before) await pause(1);
      await pause(random(500));
      host.kill('SIGKILL');
      await host.exit;
      for (const act of await acting) if (act.status === 'rejected') throw act.reason;
      if (round < kills) killed.acting++;
      expect(host.output.stderr, client.about).toBe('');
    }
    expect(client.acknowledged).toBeGreaterThan(kills);
    report({ kind, killed, acknowledged: client.acknowledged, acted, seed });
  });
});

/** The agents and workflows that tasks and runs are made of. */
async function prepare(client: HostClient, folder: string): Promise<void> {
  const grants = { tools: ['fs_write'], write: [folder] };
  await client.json('PUT', '/agent/v1/agents/worker', { name: 'worker', instructions: 'Work.', model });
  await client.json('PUT', '/agent/v1/agents/writer', {
    name: 'writer',
    instructions: 'WRITE',
    model,
    grants,
  });
  await client.json('PUT', '/agent/v1/workflows/plain', workflowSource('plain', model));
  await client.json('PUT', '/agent/v1/workflows/gated', workflowSource('gated', model, inputGate));
  await client.json('PUT', '/agent/v1/workflows/awaiting', workflowSource('awaiting', model, eventGate));
  await client.json('PUT', '/agent/v1/workflows/armed', workflowSource('armed', model, '', armedEntry));
}

async function untilGone(act: () => Promise<void>): Promise<void> {
  try {
    for (;;) await act();
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
  }
}

/** Until nothing runs: what was cut off has ended, or went on to its end by itself. */
async function quiet(client: HostClient): Promise<void> {
  const until = performance.now() + 300_000;
  for (;;) {
    const { sessions } = await client.json('GET', '/agent/v1/sessions');
    const rows = sessions as { id: string; kind: string; state: string }[];
    const running = rows.filter(({ kind, state }) => ['task', 'run'].includes(kind) && state === 'running');
    if (running.length === 0) return;
    const ids = running.map(({ id }) => id).join(', ');
    expect(performance.now(), `for ever running: ${ids} (${client.about})`).toBeLessThan(until);
    await pause(50);
  }
}
