import { z } from 'zod';
import { quantizeTypes } from '../engine/index.ts';
import { isConfigName } from '../lab/types.ts';
import { isLoopback } from '../planes/ingress.ts';

const text = z.string({ error: 'expected a text' }).min(1, 'must not be empty');
const flag = z.boolean({ error: 'expected true or false' });
const whole = (least: number, most: number, unit: string) => {
  const error = `expected a whole number from ${least} to ${most}${unit}`;
  return z.int({ error }).min(least, error).max(most, error);
};
const port = whole(0, 65_535, ' (0 takes a free port)');

const keyIdForm = 'expected ed25519: and 16 hex digits in lower case';

/** One row an option: its flag is `--name` with dashes, its key in the TOML file is `name`. */
interface OptionRow {
  readonly schema: z.ZodType;
  readonly kind: 'flag' | 'text' | 'number' | 'list';
  /** What stands for the value in the help text. */
  readonly value?: string;
  readonly help: string;
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
    schema: text.refine(isLoopback, 'this version listens on loopback only; use 127.0.0.1, ::1 or localhost'),
    kind: 'text',
    value: 'ADDRESS',
    help: 'address to listen on, loopback only (default 127.0.0.1)',
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
    help: "tokens a sequence may hold (default: the model's own, as far as the memory goes)",
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
    help: 'memory for keys and values (default: full contexts of all sequences, as far as the memory goes)',
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
  allowed_host: {
    schema: z.array(text, { error: 'expected a list of host names' }),
    kind: 'list',
    value: 'NAME',
    help: 'accept this Host header too (repeatable); loopback names are always accepted',
  },
  quiet: { schema: flag, kind: 'flag', help: 'print nothing but the ready line and errors' },
} as const satisfies Readonly<Record<string, OptionRow>>;

export type OptionName = keyof typeof optionTable;
export type Options = { [Name in OptionName]?: z.infer<(typeof optionTable)[Name]['schema']> };

export const optionNames = Object.keys(optionTable) as OptionName[];
export const isOptionName = (name: string): name is OptionName => Object.hasOwn(optionTable, name);
export const flagOf = (name: string): string => `--${name.replaceAll('_', '-')}`;

/** What is wrong with a command line or a configuration file: every fault, one a line. Exit code 2. */
export class UsageError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(faults.join('\n'));
    this.name = 'UsageError';
    this.faults = faults;
  }
}

/**
 * Checks values against the table.
 * @param where the start of a message about an option: `host.toml:3: port` or `--port`
 */
export function checkOptions(values: ReadonlyMap<OptionName, unknown>, where: (name: OptionName) => string) {
  const options: Record<string, unknown> = {};
  const faults: string[] = [];
  for (const [name, value] of values) {
    const result = z.safeParse<z.ZodType>(optionTable[name].schema, value);
    if (result.success) options[name] = result.data;
    else faults.push(`${where(name)}: ${result.error.issues[0]?.message ?? 'invalid'}, got ${show(value)}`);
  }
  return { options: options as Options, faults };
}

function show(value: unknown): string {
  const written =
    JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? Number(part) : part)) ??
    String(value);
  return written.length > 60 ? `${written.slice(0, 57)}...` : written;
}
