import { isIP } from 'node:net';
import { z } from 'zod';
import { nameForm, nameRule } from '../agent/shapes/common.ts';
import { quantizeTypes } from '../engine/index.ts';
import { isConfigName } from '../lab/types.ts';
import { collectorUrlFault } from '../telemetry/collector-url.ts';
import { show } from './usage.ts';

export { show, UsageError } from './usage.ts';

const text = z.string({ error: 'expected a text' }).min(1, 'must not be empty');
const flag = z.boolean({ error: 'expected true or false' });
const whole = (least: number, most: number, unit: string) => {
  const error = `expected a whole number from ${least} to ${most}${unit}`;
  return z.int({ error }).min(least, error).max(most, error);
};
const port = whole(0, 65_535, ' (0 takes a free port)');

/** A name as DNS has it, or an address; neither a port nor brackets. */
const isHost = (value: string): boolean =>
  isIP(value) !== 0 || /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i.test(value);

const keyIdForm = 'expected ed25519: and 16 hex digits in lower case';

/** One row an option: its flag is `--name` with dashes, its key in the TOML file is `name`. */
interface OptionRow {
  readonly schema: z.ZodType;
  readonly kind: 'flag' | 'text' | 'number' | 'list';
  /** What stands for the value in the help text. */
  readonly value?: string;
  readonly help: string;
  /** Its value may hold a password, which no message repeats. */
  readonly secret?: true;
}

export const optionTable = {
  gpu: {
    schema: flag,
    kind: 'flag',
    help: 'load a model onto the GPU; without it the host serves no completions',
  },
  model: {
    schema: text,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'the resident model: a pulled name, a .gguf file, a Hugging Face or MLC folder, the URL of either, or ' +
      'hf:OWNER/NAME[:FILE][@REVISION] (default: the embedded lathe-tiny)',
  },
  draft: {
    schema: text,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'a smaller model of the same family, named as with --model, that guesses tokens ahead for it; ' +
      'the answers are the same either way',
  },
  swap: {
    schema: flag,
    kind: 'flag',
    help: 'let a request that names another stored model have it loaded in place of the resident one',
  },
  quantize: {
    schema: text
      .transform((name) => name.toUpperCase())
      .pipe(z.enum(quantizeTypes, { error: `expected one of ${quantizeTypes.join(', ').toLowerCase()}` })),
    kind: 'text',
    value: 'TYPE',
    help: `quantise a model of 16- or 32-bit weights while it is loaded: ${quantizeTypes
      .join(', ')
      .toLowerCase()} (its digest is then not that of a GGUF of the same bytes)`,
  },
  host: {
    schema: text.refine(isHost, 'expected an address or a host name, without port and brackets'),
    kind: 'text',
    value: 'ADDRESS',
    help: 'address to listen on (default 127.0.0.1); beyond loopback every route but /health needs the bearer token',
  },
  port: {
    schema: port,
    kind: 'number',
    value: 'N',
    help: 'port to listen on; 0 takes a free one (default 8080)',
  },
  control_port: {
    schema: port,
    kind: 'number',
    value: 'N',
    help: 'also open the control socket, on loopback, at this port; 0 takes a free one',
  },
  data_dir: {
    schema: text,
    kind: 'text',
    value: 'DIR',
    help: 'where the host keeps its data (default: $LATHE_DATA_DIR or ~/.local/share/lathe)',
  },
  database: {
    schema: text.regex(/^(?:sqlite:.+|postgres(?:ql)?:\/\/.+)$/, 'expected sqlite:PATH or postgres://...'),
    kind: 'text',
    value: 'URL',
    help: 'where tasks, runs and receipts are stored: sqlite:PATH or postgres://... (default: SQLite in the data dir)',
    secret: true,
  },
  bearer_token_file: {
    schema: text,
    kind: 'text',
    value: 'FILE',
    help: 'file with the bearer token of gated routes (default: bearer.token in the data dir, made at first start)',
  },
  enable_workflow: {
    schema: z.array(text.regex(nameForm, nameRule), { error: 'expected a list of names of workflows' }),
    kind: 'list',
    value: 'NAME',
    help: 'let this workflow be run by name (repeatable); none may be otherwise',
  },
  enable_all_workflows: {
    schema: flag,
    kind: 'flag',
    help: 'let every stored workflow be run by name',
  },
  no_cancelled_state: {
    schema: flag,
    kind: 'flag',
    help: "show cancelled runs as 'failed', for clients that do not know the state 'cancelled'",
  },
  external_sessions: {
    schema: whole(1, 100_000, ' sessions'),
    kind: 'number',
    value: 'N',
    help: 'external sessions that may be open at once; beyond it registering gets 429 (default 64)',
  },
  heartbeat_secs: {
    schema: whole(1, 3600, ' seconds'),
    kind: 'number',
    value: 'N',
    help: 'how often external sessions have to beat; 2 missed are stale, 4 are lost (default 15)',
  },
  adapter: {
    schema: text,
    kind: 'text',
    value: 'NAME',
    help: "the GPU adapter, by a part of its name (default: the system's first)",
  },
  context: {
    schema: whole(1, 16_777_216, ' tokens'),
    kind: 'number',
    value: 'N',
    help: "tokens a sequence may hold (default: the model's own up to 32768, as far as the memory goes)",
  },
  parallel: { schema: whole(1, 1024, ''), kind: 'number', value: 'N', help: 'sequences that share a step' },
  queue: {
    schema: whole(0, 65_536, ''),
    kind: 'number',
    value: 'N',
    help: 'requests that may wait; beyond it they get 429',
  },
  kv_cache_bytes: {
    schema: whole(1, Number.MAX_SAFE_INTEGER, ' bytes'),
    kind: 'number',
    value: 'N',
    help: 'memory for keys and values, with --draft of both models (default: full contexts of all sequences, as far as the memory goes)',
  },
  no_speculation: {
    schema: flag,
    kind: 'flag',
    help: 'never guess tokens ahead; the answers are the same either way',
  },
  exact: {
    schema: flag,
    kind: 'flag',
    help: 'never round activations to 8 bits, even where that was measured to be faster',
  },
  gateway_config: {
    schema: text,
    kind: 'text',
    value: 'FILE',
    help: 'the gateway.toml of the gateway below /gateway (default: it offers the resident model alone)',
  },
  kernels: {
    schema: text.refine(isConfigName, "expected the name of a saved config, without '/' and '..'"),
    kind: 'text',
    value: 'NAME',
    help: 'bind the kernels of this saved config of the kernel lab at start',
  },
  trust_key: {
    schema: z.array(text.regex(/^ed25519:[0-9a-f]{16}$/, keyIdForm), { error: 'expected a list of key ids' }),
    kind: 'list',
    value: 'KEY_ID',
    help: 'also trust configs signed by this key, named as in their signature (repeatable)',
  },
  allow_unverified_kernels: {
    schema: flag,
    kind: 'flag',
    help: 'let kernels be bound that were never compared with their oracle (parity mode off)',
  },
  retune: {
    schema: flag,
    kind: 'flag',
    help: 'measure the built-in kernels anew, rather than use what was measured on this adapter before',
  },
  otlp_endpoint: {
    schema: text.superRefine((value, context) => {
      const fault = collectorUrlFault(value);
      if (fault !== undefined) context.addIssue(fault);
    }),
    kind: 'text',
    value: 'URL',
    help:
      'send traces and metrics to this OpenTelemetry collector over HTTP, as http://localhost:4318 ' +
      '(default: $OTEL_EXPORTER_OTLP_ENDPOINT, else none)',
    secret: true,
  },
  allowed_host: {
    schema: z.array(text, { error: 'expected a list of host names' }),
    kind: 'list',
    value: 'NAME',
    help: 'accept this Host header too (repeatable); loopback names and host.docker.internal are always accepted',
  },
  quiet: { schema: flag, kind: 'flag', help: 'print nothing but the ready line and errors' },
} as const satisfies Readonly<Record<string, OptionRow>>;

export type OptionName = keyof typeof optionTable;
export type Options = { [Name in OptionName]?: z.infer<(typeof optionTable)[Name]['schema']> };

export const optionNames = Object.keys(optionTable) as OptionName[];
export const isOptionName = (name: string): name is OptionName => Object.hasOwn(optionTable, name);
export const flagOf = (name: string): string => `--${name.replaceAll('_', '-')}`;

/** Checks values against the table. */
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
