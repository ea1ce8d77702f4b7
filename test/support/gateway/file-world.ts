import { GatewayFile } from '../../../src/gateway/config/gateway-file.ts';
import { openGateway } from '../../../src/gateway/open.ts';
import { listen } from '../../../src/gateway/serve/listen.ts';
import { GatewayMetrics } from '../../../src/telemetry/gateway-metrics.ts';
import { Tracer } from '../../../src/tracing/index.ts';
import { freshSqlite } from '../databases.ts';
import { ledgerOn } from '../ledger.ts';
import { type FakeProvider, fakeProvider } from './provider.ts';
import { ask, type Asking, customerOf, Witness } from './world.ts';

const caps = '"chat", "tools", "images", "reasoning", "structured_output", "completions", "caching"';
const cards = `in_usd_per_mtok = "1"\nout_usd_per_mtok = "4"\n`;

/** Nanodollars of tokens at the prices of every model of these files. */
export const costOf = (input: number, output: number): number => input * 1000 + output * 4000;

/** The tables of a model on each wire of providers, `chat`, `responses`, `claude` and `gemini`, and of `embedder`. @param settings lines of each model but the last */
export function modelTables(provider: FakeProvider, settings = ''): string {
  const tables = (
    [
      ['chat', 'openai-chat'],
      ['responses', 'openai-responses'],
      ['claude', 'anthropic-messages'],
      ['gemini', 'google'],
    ] as const
  ).map(
    ([id, wire]) => `[[providers]]
id = "at-${id}"
wire = "${wire}"
base_url = "${provider.baseUrl(wire)}"
[[models]]
id = "${id}"
provider = "at-${id}"
family = "${id}"
caps = [${caps}]
context_window = 100_000
max_output_tokens = 8_000
${cards}${settings}
`,
  );
  return `${tables.join('')}[[models]]
id = "embedder"
provider = "at-chat"
family = "openai"
caps = ["embeddings"]
context_window = 1000
${cards}
[aliases]
auto = "chat"
`;
}

export interface FileWorldOptions {
  readonly database?: string;
  readonly provider?: FakeProvider;
  readonly env?: Readonly<Record<string, string>>;
}

/** A gateway in this process with the configuration of a file, which can be replaced while it runs. */
export async function fileWorld(
  write: (provider: FakeProvider) => string,
  { database = freshSqlite(), provider: shared, env = {} }: FileWorldOptions = {},
) {
  const provider = shared ?? (await fakeProvider());
  let source = write(provider);
  const readConfig = () => new GatewayFile(source, { name: 'gateway.toml', folder: '/', env }).config();
  const faults: string[] = [];
  const metrics = new GatewayMetrics();
  const gateway = await openGateway({
    config: await readConfig(),
    readConfig,
    database,
    tracer: new Tracer([metrics]),
    observer: metrics,
    onFault: (where, error) =>
      faults.push(`${where}: ${error instanceof Error ? error.message : String(error)}`),
    onNotice: () => undefined,
  });
  const listener = await listen(gateway.app, { host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${listener.port}`;
  const witness = new Witness(await ledgerOn(database));
  return {
    provider,
    gateway,
    url,
    witness,
    faults,
    database,
    customer: (money?: Parameters<typeof customerOf>[1]) => customerOf(witness.books, money),
    ask: (path: string, asking: Asking) => ask(url, path, asking),
    /** Replaces the file and the configuration. */
    async edit(next: (provider: FakeProvider) => string) {
      source = next(provider);
      return await gateway.reload?.();
    },
    /** The value of a counter with these labels. */
    metric: (name: string, labels: Readonly<Record<string, string>>) =>
      metrics
        .families(undefined)
        .find((family) => family.name === name)
        ?.samples.find((sample) =>
          Object.entries(labels).every(([label, value]) => sample.labels?.[label] === value),
        )?.value,
    async close() {
      const closed = listener.close();
      await gateway.close(0);
      listener.destroyConnections();
      await closed;
      await witness.books.close();
      if (!shared) await provider.close();
    },
  };
}
