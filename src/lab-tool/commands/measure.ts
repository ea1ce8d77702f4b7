import { UsageError } from '../../config/options.ts';
import { splitList } from '../../terminal/arguments.ts';
import { benchLines } from '../bench-text.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { pluralize, formatError, formatPercent } from '../figures.ts';
import { groupByLayer } from '../layer-groups.ts';
import { nextStepLines } from '../next-step.ts';
import { table } from '../../terminal/table.ts';
import { whileWaiting } from '../while-waiting.ts';

const modes = ['strict', 'standard', 'off'] as const;

export const parity: CommandHandler = async ({ client, flags, print, look, environment }) => {
  const { mode, seed, 'tolerance-scale': scale } = flags;
  if (mode !== undefined || seed !== undefined || scale !== undefined) {
    const known = modes.find((each) => each === mode);
    if (mode !== undefined && known === undefined)
      throw new UsageError([`--mode: expected ${modes.join(', ')}, got '${mode}'`]);
    const parityMode = await client.setParityMode({
      mode: known ?? (await client.parityMode()).mode,
      ...(scale === undefined ? {} : { tolerance_scale: scale }),
      ...(seed === undefined ? {} : { seed }),
    });
    print(parityMode, () => [
      `parity mode ${parityMode.mode}, tolerance scale ${parityMode.tolerance_scale ?? 1}, ${parityMode.seed === undefined ? 'random seed' : `seed ${parityMode.seed}`}`,
    ]);
    return exitCodes.fine;
  }
  const result = await whileWaiting(environment, 'running parity on the host', client.runParity());
  print(result, () => {
    const groups = groupByLayer(result.components, (each) => `${each.kernel} ${each.ok}`);
    const worst = (values: readonly number[]) =>
      formatError(values.reduce((most, value) => Math.max(most, value ?? Infinity), 0));
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
          { title: 'components', minWidth: 18 },
          { title: 'kernel', minWidth: 12 },
          { title: 'worst nmse', align: 'right' },
          { title: 'max abs', align: 'right' },
        ],
        rows,
        look,
      ),
      '',
      `${verdict}  logits at ${pluralize(positions, 'position')}: KL divergence ${formatError(kl)}, top-1 agreement ${formatPercent(agreement)}`,
      look.paint('dim', `seed ${result.seed}`),
    ];
  });
  return result.ok ? exitCodes.fine : exitCodes.failed;
};

export const bench: CommandHandler = async ({ client, flags, print, look, environment }) => {
  const contexts = splitList(flags.contexts).map(Number);
  if (!contexts.every((value) => Number.isInteger(value) && value > 0))
    throw new UsageError([
      `--contexts: expected whole numbers above 0, got '${splitList(flags.contexts).join(',')}'`,
    ]);
  const { rounds, seed, full, effect, 'prompt-tokens': prompt, 'new-tokens': newTokens } = flags;
  const kernels = splitList(flags.kernel);
  const request = {
    ...(kernels.length === 0 ? {} : { kernels }),
    ...(effect === undefined ? {} : { effect }),
    mode: full === true ? ('full' as const) : ('quick' as const),
    ...(contexts.length === 0 ? {} : { contexts }),
    ...(rounds === undefined ? {} : { rounds }),
    ...(seed === undefined ? {} : { seed }),
    ...(prompt === undefined ? {} : { prompt_tokens: prompt }),
    ...(newTokens === undefined ? {} : { new_tokens: newTokens }),
  };
  const result = await whileWaiting(environment, 'running the bench on the host', client.bench(request));
  const repeated = [
    ...kernels.map((name) => `--kernel ${name}`),
    ...(contexts.length === 0 ? [] : [`--contexts ${contexts.join(',')}`]),
    ...(prompt === undefined ? [] : [`--prompt-tokens ${prompt}`]),
    ...(newTokens === undefined ? [] : [`--new-tokens ${newTokens}`]),
    ...(effect === undefined ? [] : [`--effect ${effect}`]),
    ...(full === true ? ['--full'] : []),
  ];
  print(result, () => [...benchLines(result, look), '', ...nextStepLines(result, repeated, look)]);
  return exitCodes.fine;
};
