import { UsageError } from '../../config/options.ts';
import { exitCodes, type Run } from '../context.ts';
import { count } from '../figures.ts';
import { graphLines, partsLines } from '../graph-text.ts';
import { groupByLayer } from '../groups.ts';
import { printable } from '../../terminal/printable.ts';

export const graph: Run = async ({ client, print, look }) => {
  const answer = await client.graph();
  print(answer, () => graphLines(answer, look));
  return exitCodes.fine;
};

export const parts: Run = async ({ client, print, look }) => {
  const answer = await client.parts();
  print(answer, () => partsLines(answer, look));
  return exitCodes.fine;
};

export const bind: Run = async ({ client, words: [kernel = '', ...globs], flags: { span }, print, look }) => {
  if (globs.length > 0 === (span !== undefined))
    throw new UsageError([
      'bind needs KERNEL and either component globs or --span ID, for example: bind my_norm "layers.*.attn.norm"',
    ]);
  const outcome = await client.bind({ kernel, ...(span === undefined ? { components: globs } : { span }) });
  print({ kernel, ...outcome }, () => [
    `${look.paint('good', '✓')} ${printable(kernel)} runs ${printable(boundText(outcome.components))}`,
    ...(outcome.replaced?.length
      ? [look.paint('dim', `  instead of ${printable(outcome.replaced.join(', '))}`)]
      : []),
  ]);
  return exitCodes.fine;
};

export const unbind: Run = async ({ client, print }) => {
  await client.unbind();
  print({ cleared: true }, () => ['the built-in kernels run again']);
  return exitCodes.fine;
};

/** `layers.*.attn.norm (6 components)` */
export function boundText(components: readonly string[] | undefined): string {
  if (components === undefined) return 'the requested components';
  const groups = groupByLayer(
    components.map((id) => ({ id })),
    () => '',
  );
  return `${groups.map((group) => group.pattern).join(', ')} (${count(components.length, 'component')})`;
}
