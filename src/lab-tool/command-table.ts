import type { CommandRow, FlagRow } from '../terminal/arguments.ts';

export const flagTable = {
  url: { kind: 'text', value: 'URL', help: 'the host (default: $LATHE_URL or http://127.0.0.1:8080)' },
  token: { kind: 'text', value: 'TOKEN', help: "the host's bearer token (default: $LATHE_TOKEN)" },
  'token-file': { kind: 'text', value: 'FILE', help: 'a file that holds the token' },
  json: { kind: 'flag', help: 'print one JSON document; watch prints one a line' },
  target: { kind: 'text', value: 'T', help: 'stub for plain, f16 or subgroups' },
  out: { kind: 'text', value: 'FILE', help: 'write the stub there' },
  force: { kind: 'flag', help: 'overwrite that file' },
  op: { kind: 'text', value: 'OP', help: 'the op that the kernel computes' },
  name: { kind: 'text', value: 'NAME', help: "the kernel's name (default: the file's)" },
  'entry-point': { kind: 'text', value: 'NAME', help: 'the entry point (default main)' },
  'dispatch-x': { kind: 'text', value: 'EXPR', help: "workgroups, from the op's dims and the overrides" },
  'dispatch-y': { kind: 'text', value: 'EXPR', help: 'the same in y (default 1)' },
  'dispatch-z': { kind: 'text', value: 'EXPR', help: 'the same in z (default 1)' },
  override: { kind: 'list', value: 'NAME=N', help: 'value of an override (repeatable)' },
  tune: { kind: 'list', value: 'NAME=N,N', help: 'values of an override to try (repeatable)' },
  requires: { kind: 'list', value: 'FEATURE', help: 'shader-f16 or subgroups (repeatable)' },
  dtypes: { kind: 'list', value: 'FORMAT', help: 'weight formats that the kernel reads (repeatable)' },
  bind: { kind: 'list', value: 'GLOB', help: 'bind accepted kernels there and bench them (repeatable)' },
  span: { kind: 'text', value: 'ID', help: 'bind to a span of the graph' },
  mode: { kind: 'text', value: 'MODE', help: 'set how later kernels are compared: strict, standard or off' },
  'tolerance-scale': { kind: 'number', value: 'N', help: 'multiplies the tolerances, 0.01 to 10' },
  seed: { kind: 'number', value: 'N', help: 'makes the inputs repeatable' },
  rounds: { kind: 'number', value: 'N', help: 'rounds of the comparison' },
  contexts: { kind: 'list', value: 'N,N', help: 'positions at which decoding is measured' },
  'prompt-tokens': { kind: 'number', value: 'N', help: 'length of the prompts that are measured' },
  'new-tokens': { kind: 'number', value: 'N', help: 'tokens decoded a round' },
  full: { kind: 'flag', help: 'the long bench instead of the quick one' },
} as const satisfies Readonly<Record<string, FlagRow>>;

export type FlagName = keyof typeof flagTable;

/** Flags that every command takes. */
export const sharedFlags: readonly FlagName[] = ['url', 'token', 'token-file', 'json'];
const kernelFlags: readonly FlagName[] = [
  'op',
  'name',
  'entry-point',
  'dispatch-x',
  'dispatch-y',
  'dispatch-z',
  'override',
  'tune',
  'requires',
  'dtypes',
];
const any = Number.POSITIVE_INFINITY;

export const commandTable = {
  ops: { words: '', least: 0, most: 0, flags: [], help: 'list the ops that a kernel can take over' },
  stub: {
    words: 'OP',
    least: 1,
    most: 1,
    flags: ['target', 'out', 'force'],
    help: 'print a working kernel to start from',
  },
  check: {
    words: 'FILE...',
    least: 1,
    most: any,
    flags: kernelFlags,
    help: 'put kernels through the gate; .wgsl files, or modules that export defineKernel({...})',
  },
  watch: {
    words: 'FILE...',
    least: 1,
    most: any,
    flags: [...kernelFlags, 'bind', 'span'],
    help: 'the same on every save, until Ctrl-C; binds and benches where the kernel has a place',
  },
  graph: { words: '', least: 0, most: 0, flags: [], help: 'show the live graph and its spans' },
  parts: { words: '', least: 0, most: 0, flags: [], help: 'show slots, kernels and what is bound' },
  bind: {
    words: 'KERNEL GLOB...',
    least: 1,
    most: any,
    flags: ['span'],
    help: 'let an accepted kernel run components (`layers.*.attn.norm`) or a span',
  },
  unbind: { words: '', least: 0, most: 0, flags: [], help: 'restore the built-in kernels' },
  parity: {
    words: '',
    least: 0,
    most: 0,
    flags: ['mode', 'tolerance-scale', 'seed'],
    help: 'compare the bound kernels with the built-ins on the live model; with --mode, set the gate',
  },
  bench: {
    words: '',
    least: 0,
    most: 0,
    flags: ['rounds', 'contexts', 'prompt-tokens', 'new-tokens', 'seed', 'full'],
    help: 'measure the bound kernels against the built-ins',
  },
  configs: { words: '', least: 0, most: 0, flags: [], help: 'list the saved configs' },
  save: { words: 'NAME', least: 1, most: 1, flags: [], help: 'save what is bound as a config' },
  validate: {
    words: 'NAME|FILE',
    least: 1,
    most: 1,
    flags: [],
    help: "check a config's signature, safety and evidence",
  },
  diff: {
    words: 'A B',
    least: 2,
    most: 2,
    flags: [],
    help: 'compare two configs (names or files) or two results of bench --json (files)',
  },
} as const satisfies Readonly<Record<string, CommandRow>>;

export type CommandName = keyof typeof commandTable;
