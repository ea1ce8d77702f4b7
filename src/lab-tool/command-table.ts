import type { CommandRow, FlagRow } from '../terminal/arguments.ts';

export const flagTable = {
  url: { kind: 'text', value: 'URL', help: 'URL of the host (default: $LATHE_URL or http://127.0.0.1:8080)' },
  token: { kind: 'text', value: 'TOKEN', help: 'bearer token of the host (default: $LATHE_TOKEN)' },
  'token-file': { kind: 'text', value: 'FILE', help: 'file that contains the token' },
  json: { kind: 'flag', help: 'print one JSON document; watch prints one per line' },
  target: { kind: 'text', value: 'T', help: 'target of the stub: plain, f16 or subgroups' },
  format: {
    kind: 'text',
    value: 'FORMAT',
    help: 'weight format of the stub, such as q4_k (default: that of the model)',
  },
  for: {
    kind: 'text',
    value: 'ID',
    help: 'component or span that the stub is for: it has its weight format',
  },
  config: { kind: 'flag', help: 'delete a saved config instead of a kernel' },
  out: { kind: 'text', value: 'FILE', help: 'write the stub to this file' },
  force: { kind: 'flag', help: 'overwrite the file of --out' },
  op: { kind: 'text', value: 'OP', help: 'op that the kernel computes' },
  name: { kind: 'text', value: 'NAME', help: 'name of the kernel (default: the file name)' },
  'entry-point': { kind: 'text', value: 'NAME', help: 'entry point (default: main)' },
  'dispatch-x': {
    kind: 'text',
    value: 'EXPR',
    help: "workgroups in x: an expression over the op's dims and the overrides",
  },
  'dispatch-y': { kind: 'text', value: 'EXPR', help: 'workgroups in y (default: 1)' },
  'dispatch-z': { kind: 'text', value: 'EXPR', help: 'workgroups in z (default: 1)' },
  override: { kind: 'list', value: 'NAME=N', help: 'value of an override (repeatable)' },
  tune: { kind: 'list', value: 'NAME=N,N', help: 'values to try for an override (repeatable)' },
  requires: {
    kind: 'list',
    value: 'FEATURE',
    help: 'required feature: shader-f16 or subgroups (repeatable)',
  },
  dtypes: { kind: 'list', value: 'FORMAT', help: 'weight formats that the kernel reads (repeatable)' },
  bind: {
    kind: 'list',
    value: 'GLOB',
    help: 'bind accepted kernels to these components and bench them (repeatable)',
  },
  span: { kind: 'text', value: 'ID', help: 'bind to a span of the graph' },
  mode: { kind: 'text', value: 'MODE', help: 'parity mode for later registrations: strict, standard or off' },
  'tolerance-scale': { kind: 'number', value: 'N', help: 'factor for the tolerances, 0.01 to 10' },
  seed: { kind: 'number', value: 'N', help: 'seed of the inputs, to repeat a run' },
  rounds: { kind: 'number', value: 'N', help: 'number of rounds' },
  contexts: { kind: 'list', value: 'N,N', help: 'context lengths at which decode is measured' },
  'prompt-tokens': { kind: 'number', value: 'N', help: 'prompt length for the prefill measurement' },
  'new-tokens': { kind: 'number', value: 'N', help: 'tokens to decode in each round' },
  lanes: {
    kind: 'number',
    value: 'N',
    help: 'lanes of the emulated subgroups: 4, 8, 16, 32 or 64 (default: 32, or those of the GPU)',
  },
  prefill: { kind: 'flag', help: 'profile a prompt instead of a decoded token' },
  effect: {
    kind: 'number',
    value: 'N',
    help: 'smallest difference to find, relative (default: 0.1, with --full 0.03)',
  },
  full: { kind: 'flag', help: 'run the full bench instead of the quick one' },
} as const satisfies Readonly<Record<string, FlagRow>>;

export type FlagName = keyof typeof flagTable;

/** Flags of every command. */
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
  ops: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: [],
    help: 'list the ops that a kernel can implement',
  },
  stub: {
    placeholders: 'OP',
    minWords: 1,
    maxWords: 1,
    flags: ['target', 'format', 'for', 'out', 'force'],
    help: 'print a working kernel as a starting point',
  },
  check: {
    placeholders: 'FILE...',
    minWords: 1,
    maxWords: any,
    flags: kernelFlags,
    help: 'register kernels: .wgsl files, or modules that export defineKernel({...})',
  },
  profile: {
    placeholders: 'FILE|KERNEL',
    minWords: 1,
    maxWords: 1,
    flags: [...kernelFlags, 'lanes', 'prefill'],
    help: 'count what a kernel asks of memory at each line, beside the built-in kernels, with hints',
  },
  watch: {
    placeholders: 'FILE...',
    minWords: 1,
    maxWords: any,
    flags: [...kernelFlags, 'bind', 'span'],
    help: 'check on every save until Ctrl-C; binds and benches kernels that name components',
  },
  graph: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: [],
    help: 'show the graph of the resident model and its spans',
  },
  parts: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: [],
    help: 'show slots, registered kernels and bindings',
  },
  bind: {
    placeholders: 'KERNEL GLOB...',
    minWords: 1,
    maxWords: any,
    flags: ['span'],
    help: 'bind an accepted kernel to components (`layers.*.attn.norm`) or a span',
  },
  unbind: {
    placeholders: '[GLOB...]',
    minWords: 0,
    maxWords: any,
    flags: [],
    help: 'restore the built-in kernels, of these components or of all',
  },
  source: {
    placeholders: 'KERNEL',
    minWords: 1,
    maxWords: 1,
    flags: [],
    help: 'print the source of a registered kernel; with --json its registration, last report and components',
  },
  delete: {
    placeholders: 'NAME',
    minWords: 1,
    maxWords: 1,
    flags: ['config'],
    help: 'delete a registered kernel that is not bound, or with --config a saved config',
  },
  parity: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: ['mode', 'tolerance-scale', 'seed'],
    help: 'compare the bound kernels with their oracles on the resident model; with --mode, set the parity mode',
  },
  bench: {
    placeholders: '',
    minWords: 0,
    maxWords: 0,
    flags: ['rounds', 'contexts', 'prompt-tokens', 'new-tokens', 'effect', 'seed', 'full'],
    help: 'benchmark the bound kernels against the built-in kernels',
  },
  configs: { placeholders: '', minWords: 0, maxWords: 0, flags: [], help: 'list the saved configs' },
  save: { placeholders: 'NAME', minWords: 1, maxWords: 1, flags: [], help: 'save the bindings as a config' },
  validate: {
    placeholders: 'NAME|FILE',
    minWords: 1,
    maxWords: 1,
    flags: [],
    help: 'check the signature, safety and parity evidence of a config',
  },
  diff: {
    placeholders: 'A B',
    minWords: 2,
    maxWords: 2,
    flags: [],
    help: 'compare two configs (names or files) or two results of bench --json (files)',
  },
} as const satisfies Readonly<Record<string, CommandRow>>;

export type CommandName = keyof typeof commandTable;
