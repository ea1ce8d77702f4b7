import { isIP } from 'node:net';
import { z } from 'zod';
import { nameForm, nameRule } from '../agent/shapes/common.ts';
import { quantizeTypes } from '../engine/index.ts';
import { isConfigName } from '../lab/types.ts';
import { collectorUrlFault } from '../telemetry/collector-url.ts';
import { show } from './usage.ts';

export { show, UsageError } from './usage.ts';

const text = z.string({ error: 'expected a string' }).min(1, 'must not be empty');
const flag = z.boolean({ error: 'expected true or false' });
const whole = (least: number, most: number, unit: string) => {
  const error = `expected a whole number from ${least} to ${most}${unit}`;
  return z.int({ error }).min(least, error).max(most, error);
};
const port = whole(0, 65_535, ' (0 picks a free port)');

/** DNS name or IP address, without port and brackets. */
const isHost = (value: string): boolean =>
  isIP(value) !== 0 || /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i.test(value);

const keyIdForm = 'expected ed25519: and 16 lower-case hex digits';

/** One option: its flag is `--name` with dashes, its key in the TOML file is `name`. */
interface OptionRow {
  readonly schema: z.ZodType;
  readonly kind: 'flag' | 'text' | 'number' | 'list';
  /** Placeholder of the value in the help text. */
  readonly value?: string;
  readonly help: string;
  /** The value may contain a password, so messages do not repeat it. */
  readonly secret?: true;
}

export const optionTable = {
  gpu: {
    schema: flag,
    kind: 'flag',
    help: 'load a model onto the GPU; without this flag the host serves no completions',
  },
  model: {
    schema: text,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'the resident model: the name of a pulled model, a .gguf file, a Hugging Face or MLC folder, a URL of one, or ' +
      'hf:OWNER/NAME[:FILE][@REVISION] (default: the embedded lathe-tiny)',
  },
  draft: {
    schema: text,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'draft model for speculative decoding: a smaller model of the same family, named as with --model; ' +
      'it does not change the output',
  },
  swap: {
    schema: flag,
    kind: 'flag',
    help: 'swap models on demand: a request that names another stored model loads it in place of the resident one',
  },
  quantize: {
    schema: text
      .transform((name) => name.toUpperCase())
      .pipe(z.enum(quantizeTypes, { error: `expected one of ${quantizeTypes.join(', ').toLowerCase()}` })),
    kind: 'text',
    value: 'TYPE',
    help: `quantize a model with 16- or 32-bit weights while loading it: ${quantizeTypes
      .join(', ')
      .toLowerCase()} (its digest then differs from that of a GGUF file with the same weights)`,
  },
  host: {
    schema: text.refine(isHost, 'expected an IP address or a host name, without port and brackets'),
    kind: 'text',
    value: 'ADDRESS',
    help: 'address to listen on (default 127.0.0.1); on a non-loopback address every route except the health routes needs the bearer token',
  },
  port: {
    schema: port,
    kind: 'number',
    value: 'N',
    help: 'port to listen on; 0 picks a free port (default 8080)',
  },
  control_port: {
    schema: port,
    kind: 'number',
    value: 'N',
    help: 'also open the control socket, on loopback, at this port; 0 picks a free port',
  },
  data_dir: {
    schema: text,
    kind: 'text',
    value: 'DIR',
    help: 'data directory of the host (default: $LATHE_DATA_DIR or ~/.local/share/lathe)',
  },
  database: {
    schema: text.regex(/^(?:sqlite:.+|postgres(?:ql)?:\/\/.+)$/, 'expected sqlite:PATH or postgres://...'),
    kind: 'text',
    value: 'URL',
    help: 'database for tasks, runs and receipts: sqlite:PATH or postgres://... (default: SQLite in the data directory)',
    secret: true,
  },
  bearer_token_file: {
    schema: text,
    kind: 'text',
    value: 'FILE',
    help: 'file with the bearer token of protected routes (default: bearer.token in the data directory, created at the first start)',
  },
  enable_workflow: {
    schema: z.array(text.regex(nameForm, nameRule), { error: 'expected a list of workflow names' }),
    kind: 'list',
    value: 'NAME',
    help: 'allow this workflow to be run by name (repeatable); by default none is allowed',
  },
  enable_all_workflows: {
    schema: flag,
    kind: 'flag',
    help: 'allow every stored workflow to be run by name',
  },
  no_cancelled_state: {
    schema: flag,
    kind: 'flag',
    help: "report cancelled runs as 'failed', for clients that do not know the state 'cancelled'",
  },
  external_sessions: {
    schema: whole(1, 100_000, ' sessions'),
    kind: 'number',
    value: 'N',
    help: 'maximum number of open external sessions; further registrations get status 429 (default 64)',
  },
  heartbeat_secs: {
    schema: whole(1, 3600, ' seconds'),
    kind: 'number',
    value: 'N',
    help: 'interval at which external sessions must send heartbeats; after 2 missed ones a session is stale, after 4 it is closed (default 15)',
  },
  adapter: {
    schema: text,
    kind: 'text',
    value: 'NAME',
    help: 'GPU adapter, by a part of its name (default: the first one of the system)',
  },
  context: {
    schema: whole(1, 16_777_216, ' tokens'),
    kind: 'number',
    value: 'N',
    help: "context length in tokens (default: the model's own, at most 32768 and as much as fits in memory)",
  },
  parallel: {
    schema: whole(1, 1024, ''),
    kind: 'number',
    value: 'N',
    help: 'number of sequences decoded in parallel',
  },
  queue: {
    schema: whole(0, 65_536, ''),
    kind: 'number',
    value: 'N',
    help: 'maximum number of waiting requests; further requests get status 429',
  },
  kv_cache_bytes: {
    schema: whole(1, Number.MAX_SAFE_INTEGER, ' bytes'),
    kind: 'number',
    value: 'N',
    help: 'size of the KV cache in bytes, with --draft of both models together (default: full contexts of all sequences, as much as fits in memory)',
  },
  no_speculation: {
    schema: flag,
    kind: 'flag',
    help: 'turn off speculative decoding; it does not change the output',
  },
  exact: {
    schema: flag,
    kind: 'flag',
    help: 'never round activations to 8 bits, even where that is faster',
  },
  gateway_config: {
    schema: text,
    kind: 'text',
    value: 'FILE',
    help: 'gateway.toml of the gateway at /gateway (default: the gateway offers the resident model only)',
  },
  kernels: {
    schema: text.refine(isConfigName, "expected the name of a saved config, without '/' or '..'"),
    kind: 'text',
    value: 'NAME',
    help: 'at start, bind the kernels of this saved config of the kernel lab',
  },
  trust_key: {
    schema: z.array(text.regex(/^ed25519:[0-9a-f]{16}$/, keyIdForm), { error: 'expected a list of key ids' }),
    kind: 'list',
    value: 'KEY_ID',
    help: 'also trust configs signed with this key; KEY_ID is as in their signature (repeatable)',
  },
  allow_unverified_kernels: {
    schema: flag,
    kind: 'flag',
    help: 'allow kernels to be bound that were never compared with their oracle (parity mode off)',
  },
  retune: {
    schema: flag,
    kind: 'flag',
    help: 'measure the built-in kernels again instead of using the stored measurements of this adapter',
  },
  otlp_endpoint: {
    schema: text.superRefine((value, context) => {
      const fault = collectorUrlFault(value);
      if (fault !== undefined) context.addIssue(fault);
    }),
    kind: 'text',
    value: 'URL',
    help:
      'send traces and metrics to this OpenTelemetry collector over HTTP, for example http://localhost:4318 ' +
      '(default: $OTEL_EXPORTER_OTLP_ENDPOINT, else none)',
    secret: true,
  },
  allowed_host: {
    schema: z.array(text, { error: 'expected a list of host names' }),
    kind: 'list',
    value: 'NAME',
    help: 'also accept this Host header (repeatable); loopback names and host.docker.internal are always accepted',
  },
  quiet: { schema: flag, kind: 'flag', help: 'print only the ready line and errors' },
} as const satisfies Readonly<Record<string, OptionRow>>;

export type OptionName = keyof typeof optionTable;
export type Options = { [Name in OptionName]?: z.infer<(typeof optionTable)[Name]['schema']> };

export const optionNames = Object.keys(optionTable) as OptionName[];
export const isOptionName = (name: string): name is OptionName => Object.hasOwn(optionTable, name);
export const flagOf = (name: string): string => `--${name.replaceAll('_', '-')}`;

/** Validates values against `optionTable`. */
export function checkOptions(values: ReadonlyMap<OptionName, unknown>) {
  const options: Record<string, unknown> = {};
  const faults: { option: OptionName; message: string }[] = [];
  for (const [option, value] of values) {
    const row: OptionRow = optionTable[option];
    const result = row.schema.safeParse(value);
    if (result.success) {
      options[option] = result.data;
      continue;
    }
    const message = result.error.issues[0]?.message ?? 'invalid';
    faults.push({ option, message: row.secret ? message : `${message}, got ${show(value)}` });
  }
  return { options: options as Options, faults };
}
