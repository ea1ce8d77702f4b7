import type { ReadTool } from '../../tool.ts';
import { answering, Refusal } from '../refusal.ts';
import { asked, type FindLab, type LabRegistration, lines, short, whyNoLab } from './lab-reader.ts';
import { aList, aNumber, aText, anObject, oneOf } from './schema.ts';

type Definition = Pick<ReadTool, 'name' | 'description' | 'inputSchema' | 'run'>;

const expression = (what: string) => aText(what, 500);
const registration = anObject(
  {
    name: {
      ...aText('A later kernel of the same name takes its place.'),
      pattern: '^[a-z][a-z0-9_.-]{0,63}$',
    },
    op: aText('As lab_ops lists it.', 100),
    source: aText('WGSL.', 256 * 1024),
    dispatch: anObject(
      {
        x: expression("Workgroups, as an expression over the op's dims and the overrides."),
        y: expression('Default 1.'),
        z: expression('Default 1.'),
      },
      ['x'],
    ),
    entry_point: { ...aText('Default main.'), pattern: '^[A-Za-z][A-Za-z0-9_]{0,127}$' },
    overrides: {
      type: 'object',
      additionalProperties: { type: 'number' },
      description: "Values of the module's overrides.",
    },
    requires: aList(oneOf(['shader-f16', 'subgroups'], ''), 0, 2, 'Features of the adapter.'),
  },
  ['name', 'op', 'source', 'dispatch'],
);

/** Lab tools that occupy the engine for a while, and do not change bindings. */
export function labMeasureTools(lab: FindLab): ReadTool[] {
  const unavailable = whyNoLab(lab);
  const definitions: Definition[] = [
    {
      name: 'lab_register',
      description:
        'Registers a kernel: it is parsed, checked, compiled and compared with the reference. Binds nothing.',
      inputSchema: registration,
      run: (args, { signal }) =>
        answering(async () => {
          const kernel = args as unknown as LabRegistration;
          const ops = await asked(() => lab().ops());
          if (!ops.some(({ op }) => op === kernel.op))
            throw new Refusal(
              `op: there is no '${kernel.op}'; there are ${ops.map(({ op }) => op).join(', ')}.`,
            );
          const report = await asked(() => lab().register(kernel, signal));
          const findings = report.stages.flatMap(({ stage, findings: found }) =>
            found.map(
              ({ severity, code, message, line }) =>
                `${stage} ${severity} ${code}${line === undefined ? '' : ` in line ${line}`}: ${message}`,
            ),
          );
          const failed = (report.parity ?? []).filter(({ ok }) => !ok);
          const output = lines([
            `${report.kernel} ${report.accepted ? 'accepted' : 'rejected'}, ${report.digest}`,
            ...findings,
            ...failed.map(
              (one) =>
                `parity ${one.case}: error ${short(one.nmse)}, allowed ${short(one.nmse_limit)}; at ${one.worst.index} expected ${short(one.worst.expected)}, got ${short(one.worst.got)}`,
            ),
          ]);
          return { ...output, ok: report.accepted };
        }),
    },
    {
      name: 'lab_parity',
      description: 'Compares the bound kernels with the built-in ones on the resident model.',
      inputSchema: anObject({}, []),
      run: (_, { signal }) =>
        answering(async () => {
          const { ok, components, logits } = await asked(() => lab().runParity(signal));
          const bad = components.filter((one) => !one.ok);
          const output = lines([
            `parity ${ok ? 'holds' : 'fails'}: ${components.length} components, ${bad.length} beyond their tolerance`,
            `logits over ${logits.positions} positions: KL ${short(logits.kl)}, same first token ${short(logits.top1_agreement)}`,
            ...bad.map(
              ({ id, kernel, nmse, nmse_limit: limit }) =>
                `${id}: ${kernel}, error ${short(nmse)}, allowed ${short(limit)}`,
            ),
          ]);
          return { ...output, ok };
        }),
    },
    {
      name: 'lab_bench',
      description:
        'Measures the bound kernels against the built-in ones. Takes a while and has the engine to itself.',
      inputSchema: anObject(
        {
          mode: oneOf(['quick', 'full'], 'Default quick.'),
          prompt_tokens: aNumber(1, 8192, 'Length of the prompts that are measured.'),
          new_tokens: aNumber(1, 1024, 'Tokens decoded a round.'),
          rounds: aNumber(1, 100, 'How often.'),
        },
        [],
      ),
      run: (args, { signal }) =>
        answering(async () => {
          const result = await asked(() => lab().bench({ mode: 'quick', ...args }, signal));
          const rate = ({ prefill_tps: prefill, decode_tps: decode }: typeof result.baseline) =>
            `prefill ${short(prefill)}, decode ${short(decode)} tokens a second`;
          const slowest = [...result.components].sort((a, b) => b.gpu_ms - a.gpu_ms).slice(0, 20);
          return lines([
            `verdict ${result.verdict}; decode is ${result.ratio_ci95.map(short).join(' to ')} times as fast (95 %)`,
            `built-in: ${rate(result.baseline)}`,
            `bound: ${rate(result.bound)}`,
            `prefill: ${short(result.prefill.ratio)} times, ${result.prefill.verdict}`,
            ...result.decode.map(
              ({ context, ratio, verdict }) => `decode at ${context}: ${short(ratio)} times, ${verdict}`,
            ),
            ...slowest.map(
              ({ id, kernel, gpu_ms: ms, baseline_ms: before, peak_fraction: peak, hint }) =>
                `${id}: ${kernel}, ${short(ms)} ms${before === undefined ? '' : ` (built-in ${short(before)})`}, ${short(peak)} of the peak. ${hint}`,
            ),
            ...result.warnings.map((warning) => `warning: ${warning}`),
          ]);
        }),
    },
  ];
  return definitions.map((one) => ({ kind: 'read', source: 'builtin', unavailable, ...one }));
}
