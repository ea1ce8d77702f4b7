import { UsageError } from '../../config/options.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { pluralize } from '../figures.ts';
import { graphLines, partsLines } from '../graph-text.ts';
import { groupByLayer } from '../layer-groups.ts';
import type { BindOutcome } from '../../lab/types.ts';
import { printable } from '../../terminal/printable.ts';
import { commandOf } from '../../terminal/program.ts';

type Drift = NonNullable<BindOutcome['drift']>;

export const graph: CommandHandler = async ({ client, print, look }) => {
  const answer = await client.graph();
  print(answer, () => graphLines(answer, look));
  return exitCodes.fine;
};

export const parts: CommandHandler = async ({ client, print, look }) => {
  const answer = await client.parts();
  print(answer, () => partsLines(answer, look));
  return exitCodes.fine;
};

export const bind: CommandHandler = async ({
  client,
  words: [kernel = '', ...globs],
  flags: { span },
  print,
  look,
}) => {
  if (globs.length > 0 === (span !== undefined))
    throw new UsageError([
      'bind needs KERNEL and either component globs or --span ID, for example: bind my_norm "layers.*.attn.norm"',
    ]);
  const outcome = await client.bind({ kernel, ...(span === undefined ? { components: globs } : { span }) });
  print({ kernel, ...outcome }, () => [
    `${look.paint('good', '✓')} ${printable(kernel)} runs ${printable(formatComponents(outcome.components))}`,
    ...(outcome.replaced?.length
      ? [look.paint('dim', `  instead of ${printable(outcome.replaced.join(', '))}`)]
      : []),
    ...apartLines(outcome).map((line) => look.paint('warn', `  ${line}`)),
    ...(outcome.drift ? [look.paint('dim', `  drift ${driftText(outcome.drift)}`)] : []),
    ...(outcome.drift_together
      ? [look.paint('dim', `  with all bound kernels ${driftText(outcome.drift_together)}`)]
      : []),
  ]);
  return exitCodes.fine;
};

/** What a binding costs beside the kernel itself. */
const apartLines = ({
  dispatches: { before, after } = { before: 0, after: 0 },
}: Partial<BindOutcome>): string[] =>
  after > before
    ? [
        `${after} dispatches a token, ${before} before: the built-in kernels fused these components with their neighbours, and`,
        `that counts in a bench. A kernel for a whole span keeps them together: ${commandOf('lab')} graph lists spans.`,
      ]
    : [];

function driftText({ components, positions, mean_kl: kl, top1_agreement: agreement }: Drift): string {
  const same = Math.round(agreement * positions);
  return `on ${pluralize(components, 'component')}: ${kl} nats on average, ${same} of ${positions} greedy tokens the same`;
}

export const unbind: CommandHandler = async ({ client, words: globs, print }) => {
  if (globs.length === 0) {
    await client.unbind();
    print({ cleared: true }, () => ['the built-in kernels run again']);
    return exitCodes.fine;
  }
  const components: string[] = [];
  for (const glob of globs) components.push(...(await client.unbindSome(glob)));
  print({ cleared: true, components }, () => [
    `${printable(components.join(', '))} ${components.length === 1 ? 'runs its' : 'run their'} built-in kernel again`,
  ]);
  return exitCodes.fine;
};

export const source: CommandHandler = async ({ client, words: [name = ''], print }) => {
  const kernel = await client.kernel(name);
  print(kernel, () => [kernel.registration.source.replace(/\n$/, '')]);
  return exitCodes.fine;
};

export const remove: CommandHandler = async ({ client, words: [name = ''], flags: { config }, print }) => {
  if (config === true) await client.deleteConfig(name);
  else await client.deleteKernel(name);
  print({ deleted: true, name }, () => [
    `deleted the ${config === true ? 'config' : 'kernel'} ${printable(name)}`,
  ]);
  return exitCodes.fine;
};

/** `layers.*.attn.norm (6 components)` */
export function formatComponents(components: readonly string[] | undefined): string {
  if (components === undefined) return 'the requested components';
  const groups = groupByLayer(
    components.map((id) => ({ id })),
    () => '',
  );
  return `${groups.map((group) => group.pattern).join(', ')} (${pluralize(components.length, 'component')})`;
}
