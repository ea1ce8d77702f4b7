/**
 * The tier of a test run, from `LATHE_TEST_TIER` (docs/testing.md): `fast` for `npm run test:fast`, `default` for
 * `npm test`, `rest` for what only `npm run test:all` has, `all` (also when it is not set) for everything.
 */
const tiers = ['fast', 'default', 'rest', 'all'] as const;
export type Tier = (typeof tiers)[number];

export const tier = readTier(process.env['LATHE_TEST_TIER'] || 'all');

function readTier(name: string): Tier {
  const known = tiers.find((one) => one === name);
  if (known === undefined)
    throw new Error(`LATHE_TEST_TIER: expected one of ${tiers.join(', ')}, got '${name}'`);
  return known;
}

/** Selects from `cases`: in tiers `default` and `fast` those that `isSample` is true of, in tier `rest` the others. */
export function selectCases<Case>(
  cases: readonly Case[],
  isSample: (value: Case, index: number) => boolean,
): readonly Case[] {
  if (tier === 'all') return cases;
  return cases.filter((value, index) => isSample(value, index) === (tier !== 'rest'));
}

/** Selects every `step`th case; in tier `rest` the others. */
export const everyNth = <Case>(cases: readonly Case[], step: number): readonly Case[] =>
  selectCases(cases, (_, index) => index % step === 0);

/** True where tests run that only `npm run test:all` has. */
export const runsRest = tier === 'rest' || tier === 'all';

/** Number of rounds of a random test: `sample` in tiers `default` and `fast`. */
export const rounds = (all: number, sample: number): number => (runsRest ? all : sample);

/** One weight format of each kind of block. `matmul.test.ts` runs all formats, whose readers the kernels share. */
export const isSampleFormat = (format: unknown): boolean =>
  ['f32', 'f16', 'q8_0', 'q4_0', 'q4_k', 'mxfp4'].includes(String(format));

/**
 * Subgroup sizes of sampled variants: that of a software adapter, and that of most GPUs. `test:rest` runs the sample of all sizes
 * on the adapter (`LATHE_TEST_SUBGROUPS=all`).
 */
const sampleSizes: readonly unknown[] | undefined =
  process.env['LATHE_TEST_SUBGROUPS'] === 'all' ? undefined : [8, 32];

type Options = Readonly<Record<string, unknown>>;

/**
 * Selects variants of a kernel: in tiers `default` and `fast` as few as have every option that occurs in a variant, for each of
 * `sampleSizes`. An adapter runs the variants of its own subgroup size and those without subgroups; of the latter, only the
 * options that are not among the former at every size are looked at.
 * @param isSample only these are selected from in tiers `default` and `fast`
 * @param as the tier
 */
export function selectVariants<Variant extends Options>(
  variants: readonly Variant[],
  isSample: (variant: Variant) => boolean = () => true,
  as = tier,
): readonly Variant[] {
  if (as === 'all') return variants;
  const bySize = Map.groupBy(variants.filter(isSample), (variant) =>
    variant['SUBGROUPS'] === true ? (variant['LANES'] ?? variant['WG']) : 0,
  );
  const { true: plain = [], false: sized = [] } = Object.groupBy(
    bySize.entries(),
    ([size]) => `${size === 0}`,
  );
  const sampled = sized.filter(([size]) => sampleSizes === undefined || sampleSizes.includes(size));
  const chosen = sampled.length > 0 ? sampled : sized;
  const optionsBySize = chosen.map(([, ofSize]) => new Set(ofSize.flatMap(optionsOf)));
  const isKnown = (option: string) =>
    optionsBySize.length > 0 && optionsBySize.every((options) => options.has(option));
  const sample = new Set([
    ...chosen.flatMap(([, ofSize]) => coverOptions(ofSize)),
    ...plain.flatMap(([, ofSize]) => coverOptions(ofSize, isKnown)),
  ]);
  return variants.filter((variant) => sample.has(variant) === (as !== 'rest'));
}

const optionsOf = (variant: Options): string[] =>
  Object.entries(variant).map(([name, value]) => `${name}=${String(value)}`);

/** The fewest variants, found greedily, in which every option occurs that occurs in any; known ones do not count. */
function coverOptions<Variant extends Options>(
  variants: readonly Variant[],
  isKnown = (_option: string) => false,
): Variant[] {
  const candidates = variants.map((variant) => ({ variant, options: optionsOf(variant) }));
  const missing = new Set(candidates.flatMap(({ options }) => options).filter((option) => !isKnown(option)));
  const cover: Variant[] = [];
  const countMissing = ({ options }: { readonly options: readonly string[] }) =>
    options.filter((option) => missing.has(option)).length;
  while (missing.size > 0) {
    const best = candidates.reduce((left, right) =>
      countMissing(right) > countMissing(left) ? right : left,
    );
    for (const option of best.options) missing.delete(option);
    cover.push(best.variant);
  }
  return cover;
}
