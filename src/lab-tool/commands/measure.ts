import { UsageError } from '../../config/options.ts';
import { listOf } from '../../terminal/arguments.ts';
import { benchLines } from '../bench-text.ts';
import { exitCodes, type Run } from '../context.ts';
import { count, error, percent } from '../figures.ts';
import { groupByLayer } from '../groups.ts';
import { table } from '../../terminal/table.ts';
import { whileWaiting } from '../waiting.ts';

const modes = ['strict', 'standard', 'off'] as const;

export const parity: Run = async ({ client, flags, print, look, world }) => {
  const { mode, seed, 'tolerance-scale': scale } = flags;
  if (mode !== undefined || seed !== undefined || scale !== undefined) {
    const known = modes.find((each) => each === mode);
    if (mode !== undefined && known === undefined)
      throw new UsageError([`--mode: expected ${modes.join(', ')}, got '${mode}'`]);
    const now = await client.setParityMode({
      mode: known ?? (await client.parityMode()).mode,
      ...(scale === undefined ? {} : { tolerance_scale: scale }),
      ...(seed === undefined ? {} : { seed }),
    });
    print(now, () => [
      `parity mode ${now.mode}, tolerance scale ${now.tolerance_scale ?? 1}, ${now.seed === undefined ? 'random seed' : `seed ${now.seed}`}`,
    ]);
    return exitCodes.fine;
  }
  const result = await whileWaiting(world, 'running parity on the host', client.runParity());
  print(result, () => {
    const groups = groupByLayer(result.components, (each) => `${each.kernel} ${each.ok}`);
    const worst = (values: readonly number[]) =>
      error(values.reduce((most, value) => Math.max(most, value ?? Infinity), 0));
    const rows = groups.map(({ pattern, items }) => [
      items[0]?.ok === true ? (['good', '✓'] as const) : (['bad', '✗'] as const),
      pattern,
      items[0]?.kernel ?? '',
      worst(items.map((each) => each.nmse)),
      worst(items.map((each) => each.max_abs)),
    ]);
    const { kl, top1_agreement: agreement, positions } = result.logits;
    const verdict = result.ok ? look.paint('good', '✓ parity passed') : look.paint('bad', '✗ parity failed');
    return [
      ...table(
        [
          { title: '' },
          { title: 'components', least: 18 },
          { title: 'kernel', least: 12 },
          { title: 'worst nmse', align: 'right' },
          { title: 'max abs', align: 'right' },
        ],
        rows,
        look,
      ),
      '',
      `${verdict}  logits at ${count(positions, 'position')}: KL divergence ${error(kl)}, top-1 agreement ${percent(agreement)}`,
      look.paint('dim', `seed ${result.seed}`),
    ];
  });
  return result.ok ? exitCodes.fine : exitCodes.failed;
};

export const bench: Run = async ({ client, flags, print, look, world }) => {
  const contexts = listOf(flags.contexts).map(Number);
  if (!contexts.every((value) => Number.isInteger(value) && value > 0))
    throw new UsageError([
      `--contexts: expected whole numbers above 0, got '${listOf(flags.contexts).join(',')}'`,
    ]);
  const { rounds, seed, full, 'prompt-tokens': prompt, 'new-tokens': fresh } = flags;
  const asked = {
    mode: full === true ? ('full' as const) : ('quick' as const),
    ...(contexts.length === 0 ? {} : { contexts }),
    ...(rounds === undefined ? {} : { rounds }),
    ...(seed === undefined ? {} : { seed }),
    ...(prompt === undefined ? {} : { prompt_tokens: prompt }),
    ...(fresh === undefined ? {} : { new_tokens: fresh }),
  };
  const result = await whileWaiting(world, 'running the bench on the host', client.bench(asked));
  print(result, () => benchLines(result, look));
  return exitCodes.fine;
};
