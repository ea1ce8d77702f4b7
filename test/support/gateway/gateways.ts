import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import type { RateCard } from '../../../src/gateway/catalog/rate-card.ts';
import { freshDataDir, startGateway } from '../host.ts';
import type { OpenLedger } from '../ledger.ts';
import { rates, type Sold } from './world.ts';

const caps = '"chat", "tools", "images", "reasoning", "structured_output", "completions", "caching"';

const cardOf = (card: RateCard) =>
  Object.entries(card)
    .filter(([, price]) => typeof price === 'string')
    .map(([name, price]) => `${name} = "${price}"`)
    .join('\n');

/** Writes the catalog of `configOf` as a file. @returns its path */
export function writeConfig(sold: readonly Sold[], limits = ''): string {
  const tables = sold.map(
    ({ id, wire, baseUrls, card = rates }) => `[[providers]]
id = "at-${id}"
wire = "${wire}"
base_url = ${JSON.stringify(baseUrls.length === 1 ? baseUrls[0] : baseUrls)}
${wire === 'lathe' ? '' : 'api_key_env = "HOUSE_KEY"'}
[[models]]
id = "${id}"
provider = "at-${id}"
upstream = "upstream-${id}"
family = "${wire === 'anthropic-messages' ? 'anthropic' : 'openai'}"
caps = [${caps}]
context_window = 100_000
max_output_tokens = 8_000
${cardOf(card)}
`,
  );
  const file = join(freshDataDir(), 'gateway.toml');
  writeFileSync(
    file,
    `${tables.join('')}[limits]\nconcurrency = 1000\nrequests_per_minute = 1_000_000\n${limits}`,
  );
  return file;
}

/** A gateway in its own process, started from the sources. Resolves when it serves. */
export async function gatewayProcess(
  config: string,
  database: string,
  more: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
) {
  const child = startGateway(['serve', '--config', config, '--database', database, '--port', '0', ...more], {
    HOUSE_KEY: 'sk-house',
    ...env,
  });
  const [, url = ''] = await child.waitFor('stdout', /lathe gateway ready on (http:\/\/[^\s:]+:\d+)/);
  return { ...child, output: child.output, url };
}

export type GatewayProcess = Awaited<ReturnType<typeof gatewayProcess>>;

/** Runs a gateway command. @returns its output */
export async function gatewayCommand(database: string, ...words: string[]): Promise<unknown> {
  const child = startGateway([...words, '--database', database, '--json']);
  const { code } = await child.exit;
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}: ${child.output.stderr}`);
  return JSON.parse(child.output.stdout) as unknown;
}

/**
 * On PostgreSQL others are taken for dead when they say nothing for half a minute: as if that were over.
 * @param pid of one process; all others where absent
 */
export const letBeatsStop = async ({ store }: OpenLedger, pid?: number): Promise<unknown> =>
  await store.transaction((tx) =>
    tx
      .updateTable('gateway_replicas')
      .set({ beat_at: sql`beat_at - 31000` })
      .where('id', '<>', store.replicaId)
      .$if(pid !== undefined, (query) => query.where('pid', '=', BigInt(pid ?? 0)))
      .execute(),
  );
