import { isIP } from 'node:net';
import { z } from 'zod';
import { namePattern, nameRule } from '../agent/shapes/common.ts';
import { dawnFeatureNames, quantizeTypes, verifyModes } from '../engine/index.ts';
import { isConfigName } from '../lab/types.ts';
import { findOriginFault } from '../http/origin-pattern.ts';
import { findCollectorUrlFault } from '../telemetry/collector-url.ts';
import { parseAliases } from './model-alias.ts';
import { formatValue } from './usage.ts';

export { formatValue, UsageError } from './usage.ts';

const nonEmptyText = z.string({ error: 'expected a text' }).min(1, 'must not be empty');
const booleanOption = z.boolean({ error: 'expected true or false' });
const integerBetween = (min: number, max: number, unit: string) => {
  const error = `expected a whole number from ${min} to ${max}${unit}`;
  return z.int({ error }).min(min, error).max(max, error);
};
const port = integerBetween(0, 65_535, ' (0 picks a free port)');

/** Whether a text is a DNS name or an IP address, without a port or brackets. */
const isHost = (value: string): boolean =>
  isIP(value) !== 0 || /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i.test(value);

const clientWeightPattern =
  /^(?:peer|address|key|account):[^=\s]+=(?:0\.(?:[1-9]\d?|0[1-9])|[1-9]\d{0,3}(?:\.\d{1,2})?)$/;
const clientWeightRule =
  'expected CLIENT=N: a peer (peer:NAME), an address (address:IP) or a gateway account (account:ID), and a number from 0.01 to 9999';
/** The client and its weight, from `CLIENT=N`. */
const toWeight = (text: string): [client: string, weight: number] => {
  const at = text.lastIndexOf('=');
  return [text.slice(0, at), Number(text.slice(at + 1))];
};

const keyIdRule = 'expected ed25519: and 16 hex digits in lower case';

/** An option. Its flag is `--name` with dashes; its key in the TOML file is `name`. */
interface OptionRow {
  readonly schema: z.ZodType;
  readonly kind: 'flag' | 'text' | 'number' | 'list';
  /** Placeholder of the value in the help text. */
  readonly value?: string;
  readonly help: string;
  /** The value may hold a password; messages do not repeat it. */
  readonly secret?: true;
}

export const optionTable = {
  gpu: {
    schema: booleanOption,
    kind: 'flag',
    help: 'load a model onto the GPU; without it the host serves no completions',
  },
  model: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'the resident model: a pulled name, a .gguf file, a Hugging Face or MLC folder, the URL of either, or ' +
      'hf:OWNER/NAME[:FILE][@REVISION] (default: the embedded lathe-tiny)',
  },
  draft: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'the draft model for speculative decoding: a smaller model of the same family, named as with --model; ' +
      'the answers do not change',
  },
  embedding_model: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'NAME|PATH|URL',
    help:
      'a second model, for embeddings, that stays resident beside the first, named as with --model; embedding ' +
      'requests that name no model use it',
  },
  swap: {
    schema: booleanOption,
    kind: 'flag',
    help: 'load another stored model, in place of the resident one, when a request names it',
  },
  resident: {
    schema: integerBetween(1, 64, ' models'),
    kind: 'number',
    value: 'N',
    help:
      'keep up to N models loaded, as memory allows: when a request names a stored model, it is loaded beside the others, and ' +
      'the least recently used one leaves where there is no room; the model of --model stays, unless --swap (default 1)',
  },
  resident_bytes: {
    schema: integerBetween(1, Number.MAX_SAFE_INTEGER, ' bytes'),
    kind: 'number',
    value: 'N',
    help: 'about so many bytes of device memory for all loaded models together (default: what the device gives)',
  },
  alias: {
    schema: z
      .array(z.string({ error: 'expected a text' }), { error: 'expected a list of NAME=MODEL' })
      .transform((texts, context) => {
        const { aliases, faults } = parseAliases(texts);
        if (faults.length > 0) context.addIssue(faults.join('; '));
        return aliases;
      }),
    kind: 'list',
    value: 'NAME=MODEL',
    help:
      'serve a model under a further name, for clients that cannot be told one (repeatable): gpt-4o-mini=resident, or ' +
      'with --swap or --resident the name of a stored model',
  },
  quantize: {
    schema: nonEmptyText
      .transform((name) => name.toUpperCase())
      .pipe(z.enum(quantizeTypes, { error: `expected one of ${quantizeTypes.join(', ').toLowerCase()}` })),
    kind: 'text',
    value: 'TYPE',
    help: `quantize a model with 16- or 32-bit weights while it is loaded: ${quantizeTypes
      .join(', ')
      .toLowerCase()} (its digest then differs from that of a GGUF file with the same bytes)`,
  },
  host: {
    schema: nonEmptyText.refine(isHost, 'expected an address or a host name, without port and brackets'),
    kind: 'text',
    value: 'ADDRESS',
    help: 'address to listen on (default 127.0.0.1); beyond loopback every route but /health needs the bearer token',
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
    schema: nonEmptyText,
    kind: 'text',
    value: 'DIR',
    help: 'where the host keeps its data (default: $LATHE_DATA_DIR or ~/.local/share/lathe)',
  },
  database: {
    schema: nonEmptyText.regex(
      /^(?:sqlite:.+|postgres(?:ql)?:\/\/.+)$/,
      'expected sqlite:PATH or postgres://...',
    ),
    kind: 'text',
    value: 'URL',
    help: 'where tasks, runs and receipts are stored: sqlite:PATH or postgres://... (default: SQLite in the data dir)',
    secret: true,
  },
  bearer_token_file: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'FILE',
    help: 'file with the bearer token of gated routes (default: bearer.token in the data dir, created at first start)',
  },
  enable_workflow: {
    schema: z.array(nonEmptyText.regex(namePattern, nameRule), {
      error: 'expected a list of names of workflows',
    }),
    kind: 'list',
    value: 'NAME',
    help: 'allow this workflow to be run by name (repeatable); by default none can',
  },
  enable_all_workflows: {
    schema: booleanOption,
    kind: 'flag',
    help: 'allow every stored workflow to be run by name',
  },
  no_cancelled_state: {
    schema: booleanOption,
    kind: 'flag',
    help: "show cancelled runs as 'failed', for clients that do not know the state 'cancelled'",
  },
  external_sessions: {
    schema: integerBetween(1, 100_000, ' sessions'),
    kind: 'number',
    value: 'N',
    help: 'limit of open external sessions; further registrations get 429 (default 64)',
  },
  heartbeat_secs: {
    schema: integerBetween(1, 3600, ' seconds'),
    kind: 'number',
    value: 'N',
    help: 'heartbeat interval of external sessions; stale after 2 missed heartbeats, lost after 4 (default 15)',
  },
  adapter: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'NAME',
    help: "the GPU adapter, by part of its name (default: the system's first)",
  },
  dawn_features: {
    schema: z
      .array(z.enum(dawnFeatureNames, { error: `expected one of ${dawnFeatureNames.join(', ')}` }), {
        error: 'expected a list of features of Dawn',
      })
      .transform((names) => [...new Set(names)]),
    kind: 'list',
    value: 'NAME',
    help: "enable a feature (toggle) of Dawn on the model's device, for experts (repeatable): docs/performance.md",
  },
  context: {
    schema: integerBetween(1, 16_777_216, ' tokens'),
    kind: 'number',
    value: 'N',
    help: "context length in tokens (default: the model's own up to 32768, as memory allows)",
  },
  parallel: {
    schema: integerBetween(1, 1024, ''),
    kind: 'number',
    value: 'N',
    help: 'sequences in one batch step',
  },
  queue: {
    schema: integerBetween(0, 65_536, ''),
    kind: 'number',
    value: 'N',
    help: 'limit of queued requests; further requests get 429',
  },
  client_weight: {
    schema: z
      .array(nonEmptyText.regex(clientWeightPattern, clientWeightRule), {
        error: 'expected a list of weights',
      })
      .transform((texts) => new Map(texts.map(toWeight))),
    kind: 'list',
    value: 'CLIENT=N',
    help:
      'share of a client relative to the others, whose weight is 1, such as peer:desk=4 or address:10.0.0.7=0.5 ' +
      '(repeatable)',
  },
  no_truncate: {
    schema: booleanOption,
    kind: 'flag',
    help: 'refuse a conversation on /api/chat that exceeds the context, instead of dropping its oldest messages',
  },
  kv_cache_bytes: {
    schema: integerBetween(1, Number.MAX_SAFE_INTEGER, ' bytes'),
    kind: 'number',
    value: 'N',
    help: 'KV cache memory, with --draft of both models (default: full contexts of all sequences, as memory allows)',
  },
  no_speculation: {
    schema: booleanOption,
    kind: 'flag',
    help: 'disable speculative decoding; the answers do not change',
  },
  exact: {
    schema: booleanOption,
    kind: 'flag',
    help: 'never round to f16, 16 or 8 bits in products, even if that was measured to be faster',
  },
  gateway_config: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'FILE',
    help: 'gateway.toml of the gateway under /gateway (default: it serves the resident model only)',
  },
  gateway_admin_port: {
    schema: port,
    kind: 'number',
    value: 'N',
    help: "port on loopback for the gateway's operator: its page and admin API; 0 picks a free port (default: none)",
  },
  gateway_admin_token_file: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'FILE',
    help: 'tokens of operators, a line NAME TOKEN for each; needs --gateway-admin-port',
  },
  kernels: {
    schema: nonEmptyText.refine(isConfigName, "expected the name of a saved config, without '/' and '..'"),
    kind: 'text',
    value: 'NAME',
    help: 'at start, bind the kernels of this saved kernel lab config',
  },
  trust_key: {
    schema: z.array(nonEmptyText.regex(/^ed25519:[0-9a-f]{16}$/, keyIdRule), {
      error: 'expected a list of key ids',
    }),
    kind: 'list',
    value: 'KEY_ID',
    help: 'also trust configs signed with this key, named as in their signature (repeatable)',
  },
  allow_unverified_kernels: {
    schema: booleanOption,
    kind: 'flag',
    help: 'allow binding kernels that were never compared with their oracle (parity mode off)',
  },
  retune: {
    schema: booleanOption,
    kind: 'flag',
    help: 'measure and verify the built-in kernels again, instead of using earlier results on this adapter',
  },
  verify: {
    schema: z.enum(verifyModes, { error: `expected one of ${verifyModes.join(', ')}` }),
    kind: 'text',
    value: 'MODE',
    help:
      'compare kernels with the CPU oracle at start, and replace wrong ones: sample (default; once for each adapter, driver ' +
      'and model shape), full (every layer, at every start) or off',
  },
  otlp_endpoint: {
    schema: nonEmptyText.superRefine((value, context) => {
      const fault = findCollectorUrlFault(value);
      if (fault !== undefined) context.addIssue(fault);
    }),
    kind: 'text',
    value: 'URL',
    help:
      'send traces and metrics to this OpenTelemetry collector over HTTP, such as http://localhost:4318 ' +
      '(default: $OTEL_EXPORTER_OTLP_ENDPOINT, else none)',
    secret: true,
  },
  store_responses: {
    schema: booleanOption,
    kind: 'flag',
    help:
      'store the responses of /v1/responses with their conversations in the database, for previous_response_id and GET; ' +
      'without it nothing is stored',
  },
  response_retention: {
    schema: integerBetween(1, 3650, ' days'),
    kind: 'number',
    value: 'DAYS',
    help: 'delete stored responses this many days after they were made (default 30)',
  },
  metrics_compat: {
    schema: z.enum(['vllm'], { error: 'expected vllm' }),
    kind: 'text',
    value: 'vllm',
    help:
      "serve the engine's metrics under vLLM's names too, for inference gateways, autoscalers and benchmarks that read " +
      'them: docs/scale.md',
  },
  allowed_host: {
    schema: z.array(nonEmptyText, { error: 'expected a list of host names' }),
    kind: 'list',
    value: 'NAME',
    help: 'accept this Host header too (repeatable); loopback names and host.docker.internal are always accepted',
  },
  allowed_origin: {
    schema: z
      .array(z.string({ error: 'expected a text' }), { error: 'expected a list of origins' })
      .superRefine((patterns, context) => {
        const faults = patterns.flatMap((pattern) => {
          const fault = findOriginFault(pattern);
          return fault === undefined ? [] : [`${formatValue(pattern)}: ${fault}`];
        });
        if (faults.length > 0) context.addIssue(faults.join('; '));
      }),
    kind: 'list',
    value: 'ORIGIN',
    help:
      'let web pages of this origin call /v1, /api and the routes of llama.cpp, such as https://app.example.com or ' +
      'http://localhost:* (repeatable; default: $OLLAMA_ORIGINS, else none)',
  },
  tls_cert: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'FILE',
    help: 'serve HTTPS with this certificate and those of its issuers, in PEM; needs --tls-key; read again when it changes',
  },
  tls_key: {
    schema: nonEmptyText,
    kind: 'text',
    value: 'FILE',
    help: 'private key of --tls-cert, in PEM, without a passphrase',
  },
  quiet: { schema: booleanOption, kind: 'flag', help: 'print nothing but the ready line and errors' },
} as const satisfies Readonly<Record<string, OptionRow>>;

export type OptionName = keyof typeof optionTable;
export type Options = { [Name in OptionName]?: z.infer<(typeof optionTable)[Name]['schema']> };

export const optionNames = Object.keys(optionTable) as OptionName[];
export const isOptionName = (name: string): name is OptionName => Object.hasOwn(optionTable, name);
export const flagNameOf = (name: string): string => `--${name.replaceAll('_', '-')}`;

/** Validates option values. */
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
    faults.push({ option, message: row.secret ? message : `${message}, got ${formatValue(value)}` });
  }
  return { options: options as Options, faults };
}
