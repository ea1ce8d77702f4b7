import { formatNames } from '../../../../kernels/formats.ts';
import type { ReadTool } from '../../tool.ts';
import { withRefusalAsOutput, Refusal } from '../refusal.ts';
import {
  withLabErrorsAsRefusals,
  type GetLab,
  type LabComparison,
  type LabRegistration,
  toLinesOutput,
  formatNumber,
  labUnavailableReason,
} from './lab-reader.ts';
import { listSchema, integerSchema, textSchema, objectSchema, enumSchema } from './schema.ts';

type Definition = Pick<ReadTool, 'name' | 'description' | 'inputSchema' | 'run'>;

const comparisonText = ({ ratio, ci95, verdict }: LabComparison): string =>
  `${verdict}, ${formatNumber(ratio)} times as fast (95 %: ${formatNumber(ci95.low)} to ${formatNumber(ci95.high)})`;
const expressionText = (what: string) => textSchema(what, 500);
const registration = objectSchema(
  {
    name: {
      ...textSchema('A later kernel of the same name takes its place.'),
      pattern: '^[a-z][a-z0-9_.-]{0,63}$',
    },
    op: textSchema('As lab_ops lists it.', 100),
    source: textSchema('WGSL.', 256 * 1024),
    dispatch: objectSchema(
      {
        x: expressionText("Workgroups, as an expression over the op's dims and the overrides."),
        y: expressionText('Default 1.'),
        z: expressionText('Default 1.'),
      },
      ['x'],
    ),
    entry_point: { ...textSchema('Default main.'), pattern: '^[A-Za-z][A-Za-z0-9_]{0,127}$' },
    overrides: {
      type: 'object',
      additionalProperties: { type: 'number' },
      description: "Values of the module's overrides.",
    },
    tunables: {
      type: 'object',
      additionalProperties: listSchema({ type: 'number' }, 1, 16, ''),
      description:
        'Overrides with the values to try, 256 combinations at most; the fastest that is right is kept for each shape.',
    },
    requires: listSchema(enumSchema(['shader-f16', 'subgroups'], ''), 0, 2, 'Features of the adapter.'),
    dtypes: listSchema(
      enumSchema(formatNames, ''),
      1,
      16,
      'Weight formats that the kernel reads. Default: those of the model.',
    ),
  },
  ['name', 'op', 'source', 'dispatch'],
);

/** Lab tools that occupy the engine for a while, and do not change bindings. */
export function labMeasureTools(lab: GetLab): ReadTool[] {
  const unavailable = labUnavailableReason(lab);
  const definitions: Definition[] = [
    {
      name: 'lab_register',
      description:
        'Registers a kernel: it is parsed, checked, compiled and compared with the reference. Binds nothing.',
      inputSchema: registration,
      run: (args, { signal }) =>
        withRefusalAsOutput(async () => {
          const kernel = args as unknown as LabRegistration;
          const ops = await withLabErrorsAsRefusals(() => lab().ops());
          if (!ops.some(({ op }) => op === kernel.op))
            throw new Refusal(
              `op: there is no '${kernel.op}'; there are ${ops.map(({ op }) => op).join(', ')}.`,
            );
          const report = await withLabErrorsAsRefusals(() => lab().register(kernel, signal));
          const findings = report.stages.flatMap(({ stage, findings: found }) =>
            found.map(
              ({ severity, code, message, line }) =>
                `${stage} ${severity} ${code}${line === undefined ? '' : ` in line ${line}`}: ${message}`,
            ),
          );
          const failed = (report.parity ?? []).filter(({ ok }) => !ok);
          const output = toLinesOutput([
            `${report.kernel} ${report.accepted ? 'accepted' : 'rejected'}, ${report.digest}`,
            ...(report.tuning ?? []).map(
              ({ shape, best, best_ms: ms, builtin_ms: before }) =>
                `kept for ${shape}: ${Object.entries(best)
                  .map(([name, value]) => `${name}=${value}`)
                  .join(
                    ' ',
                  )}, ${formatNumber(ms)} ms${before === undefined ? '' : ` (built-in ${formatNumber(before)})`}`,
            ),
            ...findings,
            ...failed.map(
              (one) =>
                `parity ${one.case}: error ${formatNumber(one.nmse)}, allowed ${formatNumber(one.nmse_limit)}; at ${one.worst.index} expected ${formatNumber(one.worst.expected)}, got ${formatNumber(one.worst.got)}`,
            ),
          ]);
          return { ...output, ok: report.accepted };
        }),
    },
    {
      name: 'lab_parity',
      description: 'Compares the bound kernels with the built-in ones on the resident model.',
      inputSchema: objectSchema({}, []),
      run: (_, { signal }) =>
        withRefusalAsOutput(async () => {
          const { ok, components, logits } = await withLabErrorsAsRefusals(() => lab().runParity(signal));
          const failedComponents = components.filter((one) => !one.ok);
          const output = toLinesOutput([
            `parity ${ok ? 'holds' : 'fails'}: ${components.length} components, ${failedComponents.length} beyond their tolerance`,
            `logits over ${logits.positions} positions: KL ${formatNumber(logits.kl)}, same first token ${formatNumber(logits.top1_agreement)}`,
            ...failedComponents.map(
              ({ id, kernel, nmse, nmse_limit: limit }) =>
                `${id}: ${kernel}, error ${formatNumber(nmse)}, allowed ${formatNumber(limit)}`,
            ),
          ]);
          return { ...output, ok };
        }),
    },
    {
      name: 'lab_bench',
      description:
        'Measures the bound kernels against the built-in ones. Takes a while and has the engine to itself.',
      inputSchema: objectSchema(
        {
          mode: enumSchema(['quick', 'full'], 'Default quick.'),
          prompt_tokens: integerSchema(1, 8192, 'Length of the prompts that are measured.'),
          new_tokens: integerSchema(1, 1024, 'Tokens decoded a round.'),
          rounds: integerSchema(1, 100, 'How often.'),
          contexts: listSchema(
            integerSchema(1, 16_777_216, ''),
            1,
            16,
            'Positions at which decode is measured.',
          ),
          seed: integerSchema(0, 0xffffffff, 'Makes the prompts and the order of the rounds reproducible.'),
        },
        [],
      ),
      run: (args, { signal }) =>
        withRefusalAsOutput(async () => {
          const result = await withLabErrorsAsRefusals(() => lab().bench({ mode: 'quick', ...args }, signal));
          const rate = ({ prefill_tps: prefill, decode_tps: decode }: typeof result.baseline) =>
            `prefill ${formatNumber(prefill)}, decode ${formatNumber(decode)} tokens a second`;
          const slowest = [...result.components].sort((a, b) => b.gpu_ms - a.gpu_ms).slice(0, 20);
          return toLinesOutput([
            `verdict ${result.verdict}; decode is ${result.ratio_ci95.map(formatNumber).join(' to ')} times as fast (95 %)`,
            `built-in: ${rate(result.baseline)}`,
            `bound: ${rate(result.bound)}`,
            `prefill: ${comparisonText(result.prefill)}`,
            ...result.decode.map((one) => `decode at ${one.context}: ${comparisonText(one)}`),
            ...slowest.map(
              ({ id, kernel, gpu_ms: ms, baseline_ms: before, peak_fraction: peak, hint }) =>
                `${id}: ${kernel}, ${formatNumber(ms)} ms${before === undefined ? '' : ` (built-in ${formatNumber(before)})`}, ${formatNumber(peak)} of the peak. ${hint}`,
            ),
            ...result.warnings.map((warning) => `warning: ${warning}`),
          ]);
        }),
    },
  ];
  return definitions.map((one) => ({ kind: 'read', source: 'builtin', unavailable, ...one }));
}
