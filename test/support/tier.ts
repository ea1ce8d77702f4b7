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

type Options = Readonly<Record<string, unknown>>;

/**
 * Selects variants of a kernel: in tiers `default` and `fast` as few as have every option that occurs in a variant. An adapter
 * runs the variants without subgroups and those of its own subgroup size, so options are counted within each size.
 */
export function selectVariants<Variant extends Options>(variants: readonly Variant[]): readonly Variant[] {
  if (tier === 'all') return variants;
  const bySize = Map.groupBy(variants, (variant) =>
    variant['SUBGROUPS'] === true ? (variant['LANES'] ?? variant['WG']) : 0,
  );
  const sample = new Set([...bySize.values()].flatMap(coverOptions));
  return selectCases(variants, (variant) => sample.has(variant));
}

/** The fewest variants, found greedily, in which every option occurs that occurs in any. */
function coverOptions<Variant extends Options>(variants: readonly Variant[]): Variant[] {
  const candidates = variants.map((variant) => ({
    variant,
    options: Object.entries(variant).map(([name, value]) => `${name}=${String(value)}`),
  }));
  const missing = new Set(candidates.flatMap(({ options }) => options));
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
