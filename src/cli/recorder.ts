import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Peers } from '../agent/sessions/peers.ts';
import type { Command } from '../config/commands.ts';
import type { Settings } from '../config/toml.ts';
import { formatBytes } from '../engine/index.ts';
import { UsageError } from '../config/usage.ts';
import { RecorderError } from '../recorder/errors.ts';
import { Recorder } from '../recorder/recorder.ts';
import type { RecorderService } from '../recorder/services.ts';
import type { Grant, Rack, ReviewEntry, WriteToken } from '../recorder/types.ts';
import { Store } from '../store/index.ts';
import { didYouMean } from '../words/nearest.ts';
import { databaseUrl, defaultDataDir, openDataDir } from './data-dir.ts';
import { formatTable } from './models/format-table.ts';
import { formatJson, printable } from '../terminal/printable.ts';
import { StartError } from './start-error.ts';
import type { CliContext } from './cli-context.ts';

type RecorderCommand = Extract<Command, { verb: 'recorder' }>;

/** Access to the data directory implies the operator credential, so actions are recorded as the operator's. */
const by = 'operator';

/** `recorder racks`, `grants`, `grant`, `token`, `revoke` and `review`. They also work while a host runs. */
export async function manageRecorder(
  command: RecorderCommand,
  settings: Settings,
  cli: CliContext,
): Promise<void> {
  const { path, endpointId } = await openDataDir(settings.data_dir ?? defaultDataDir(cli.env, cli.home));
  const writeNote = (message: string) => cli.stderr.write(`${printable(message)}\n`);
  const recorder = await Recorder.open({
    folder: join(path, 'recorder'),
    secrets: [],
    findPeer: (name) => findPeer(name, databaseUrl(settings.database, path), endpointId),
    onFault: writeNote,
    onNotice: writeNote,
  });
  try {
    const { value, output, note } = await runAction(command, recorder);
    if (!command.json && note !== undefined) writeNote(note);
    cli.stdout.write(command.json ? `${formatJson(value)}\n` : output);
  } catch (error) {
    throw toUsageError(error);
  } finally {
    await recorder.close();
  }
}

/** Looks up a peer in the host's database. Without a database there are no peers. */
async function findPeer(name: string, url: string, endpointId: string): ReturnType<Peers['findCurrent']> {
  const file = /^sqlite:(.+)$/s.exec(url)?.[1];
  if (file !== undefined && !existsSync(file)) return undefined;
  const store = await Store.open({ url, endpointId });
  try {
    return await new Peers({ store }).findCurrent(name);
  } finally {
    await store.close();
  }
}

/** Reports the violations of a request as faults of the flags it was built from. */
function toUsageError(error: unknown): unknown {
  if (!(error instanceof RecorderError) || error.violations.length === 0) return error;
  return new UsageError(error.violations.map(({ path, message }) => `--${path} ${message}`));
}

interface ActionResult {
  readonly value: unknown;
  /** Output for people. For a new token, the token alone, so that a script can store it. */
  readonly output: string;
  readonly note?: string;
}

async function runAction(command: RecorderCommand, recorder: RecorderService): Promise<ActionResult> {
  const now = new Date();
  switch (command.action) {
    case 'racks': {
      const racks = await recorder.racks();
      return { value: racks, output: racksTable(racks) };
    }
    case 'grants': {
      const value = await recorder.grants(command.rack);
      return { value, output: grantsTables(value, now) };
    }
    case 'grant': {
      const { rack, verbs, to = 'bearer', from, expires } = command;
      const includesPast = from === 'beginning';
      const value = await recorder.grant({ rack, verbs, to, includesPast, expiresAt: expires(now) }, by);
      const scope = includesPast ? ', including events already recorded,' : '';
      const permission = `${value.to} may ${value.verbs.join(' and ')} the rack ${value.rack}${scope}`;
      return { value, output: `${value.id}: ${permission} until ${value.expires_at}\n` };
    }
    case 'token': {
      const { rack, expires, label, to } = command;
      const value = await recorder.mintToken({ rack, expiresAt: expires?.(now), label, to }, by);
      const note = `${value.id} may write to the rack ${value.rack} until ${value.expires_at}; the token is shown only once`;
      return { value, output: `${value.token}\n`, note };
    }
    case 'revoke': {
      const value = await revoke(command.name, recorder);
      return { value, output: `${value.id} is revoked\n` };
    }
    case 'review': {
      const entries = await review(command, recorder);
      return { value: entries, output: reviewTable(entries) };
    }
  }
}

async function revoke(id: string, recorder: RecorderService): Promise<Grant | WriteToken> {
  const { grants, tokens } = await recorder.grants();
  if (tokens.some((token) => token.id === id)) return await recorder.revokeToken(id, by);
  if (grants.some((grant) => grant.id === id)) return await recorder.revokeGrant(id, by);
  const known = [...grants, ...tokens].map((entry) => entry.id);
  throw new StartError(
    `there is no grant or token '${id}'${didYouMean(id, known, (near) => `'${near}'`)}; list them with recorder grants.`,
  );
}

async function review(
  { rack, after }: Extract<RecorderCommand, { action: 'review' }>,
  recorder: RecorderService,
): Promise<ReviewEntry[]> {
  const all: ReviewEntry[] = [];
  for (let position: number | null = after ?? 0; position !== null; ) {
    const { entries, next } = await recorder.review({ rack, after: position, limit: 1000 });
    all.push(...entries);
    position = next;
  }
  return all;
}

function racksTable(racks: readonly Rack[]): string {
  const cells = racks.map(({ id, armed, policy: { content, retention, redact }, events, bytes, newest }) => [
    id,
    armed ? 'armed' : 'disarmed',
    content,
    `${retention.days} days, ${formatBytes(retention.bytes)}, ${retention.events} events`,
    redact.join(' ') || '-',
    String(events),
    formatBytes(bytes),
    newest ?? '-',
  ]);
  return formatTable(['RACK', 'STATE', 'CONTENT', 'AT MOST', 'REDACTS', 'EVENTS', 'SIZE', 'NEWEST'], cells);
}

function grantsTables({ grants, tokens }: Awaited<ReturnType<RecorderService['grants']>>, now: Date): string {
  if (grants.length === 0) return 'no grants: nobody can read or write the racks\n';
  const granted = formatTable(
    ['GRANT', 'RACK', 'VERBS', 'TO', 'FROM', 'STATE'],
    grants.map((entry) => [
      entry.id,
      entry.rack,
      entry.verbs.join(','),
      entry.to,
      entry.includes_past ? 'beginning' : entry.granted_at.slice(0, 10),
      stateOf(entry, now),
    ]),
  );
  if (tokens.length === 0) return granted;
  const minted = formatTable(
    ['TOKEN', 'RACK', 'BY GRANT', 'STATE', 'LABEL'],
    tokens.map((entry) => [entry.id, entry.rack, entry.grant, stateOf(entry, now), entry.label ?? '']),
  );
  return `${granted}\n${minted}`;
}

function stateOf({ revoked_at: revoked, expires_at: expires }: Grant | WriteToken, now: Date): string {
  if (revoked !== null) return `revoked ${revoked.slice(0, 10)}`;
  return `${new Date(expires) <= now ? 'expired' : 'until'} ${expires.slice(0, 10)}`;
}

function reviewTable(entries: readonly ReviewEntry[]): string {
  if (entries.length === 0) return 'no entries\n';
  return formatTable(
    ['SEQ', 'AT', 'BY', 'ACT', 'RACK', 'DETAILS'],
    entries.map(({ seq, at, by: who, act, rack, details }) => [
      String(seq),
      at,
      who,
      act,
      rack ?? '-',
      Object.keys(details).length > 0 ? JSON.stringify(details) : '',
    ]),
  );
}
