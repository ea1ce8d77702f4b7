/** Every pipeline that a plan asks for on some adapter is a variant that the tests of its kernel run, and no other is. */
import { afterAll, expect, it } from 'vitest';
import { type Variant, variantKey } from '../../kernels/assemble.ts';
import { attentionModes } from '../../kernels/attention-variants.ts';
import { flashDecodeAttention } from '../../kernels/attention.ts';
import type { Kernel } from '../../kernels/define.ts';
import { weightFormats } from '../../kernels/formats.ts';
import type { TensorType } from '../../src/engine/formats/model-file.ts';
import { targetsOf } from '../../src/engine/graph/bindings.ts';
import { kernels } from '../support/all-kernels.ts';
import {
  convolutionModels,
  fixtureModels,
  listedModels,
  modelsOfType,
  otherModels,
  type PlannedModel,
  randomModels,
  smallModels,
} from '../support/planned-models.ts';
import {
  adaptersBySize,
  type AdapterTraits,
  allAdapters,
  planOn,
  type PlannedPipeline,
  type PlannedPipelines,
  vendorAdapters,
} from '../support/planned-pipelines.ts';
import { rounds, runsRest } from '../support/tier.ts';

type AnyKernel = Kernel<Variant, never>;

const listed = new Map(
  kernels.flatMap((kernel) =>
    kernel.variants.map((variant) => [variantKey(kernel.source, variant), { kernel, variant }] as const),
  ),
);
const keyOf = ({ kernel, variant }: Pick<PlannedPipeline, 'kernel' | 'variant'>) =>
  variantKey(kernel.source, variant);

const pathsOf = (kernel: AnyKernel, variant: Variant): string[] =>
  (kernel.paths?.(variant) ?? []).map((path) => `${kernel.source} ${path}`);
/** Number of listed variants that take each path. */
const pathCounts = new Map<string, number>();
for (const { kernel, variant } of listed.values()) {
  for (const path of pathsOf(kernel, variant)) pathCounts.set(path, (pathCounts.get(path) ?? 0) + 1);
}
const takesListedPaths = ({ kernel, variant }: PlannedPipeline): boolean => {
  const paths = pathsOf(kernel, variant);
  return paths.length > 0 && paths.every((path) => pathCounts.has(path));
};

const sizesOf = (kernel: AnyKernel, variant: Variant): string =>
  variantKey(
    kernel.source,
    Object.fromEntries(
      Object.entries(variant).filter(([name]) => !attentionModes.some((mode) => mode === name)),
    ),
  );
const listedSizes = new Set([...listed.values()].map(({ kernel, variant }) => sizesOf(kernel, variant)));

/** Few GPUs have such subgroups, and a software adapter compiles these variants for half a minute each. */
const isNarrowFlash = ({ kernel, variant }: PlannedPipeline): boolean =>
  kernel.source === flashDecodeAttention.source && Number(variant['LANES']) < 32;

const isListed = (one: PlannedPipeline): boolean =>
  listed.has(keyOf(one)) || (isNarrowFlash(one) && takesListedPaths(one));

const describePipeline = ({ kernel, variant, by }: PlannedPipeline) =>
  `${variantKey(kernel.source, variant)}: asked for by ${by}`;

/** All pipelines of this file's plans. */
const planned: PlannedPipelines = new Map();

/** Pipelines of these models' plans that a predicate is false of. */
async function pipelinesWithout(
  isAllowed: (one: PlannedPipeline) => boolean,
  plan: (pipelines: PlannedPipelines) => Promise<void>,
): Promise<string[]> {
  const pipelines: PlannedPipelines = new Map();
  await plan(pipelines);
  expect(pipelines.size).toBeGreaterThan(100);
  for (const [key, one] of pipelines) planned.set(key, one);
  return [...pipelines.values()].filter((one) => !isAllowed(one)).map(describePipeline);
}

const planAll =
  (
    models: readonly PlannedModel[],
    adapters: readonly AdapterTraits[],
    contexts: readonly (number | undefined)[],
  ) =>
  async (pipelines: PlannedPipelines): Promise<void> => {
    for (const model of models) {
      for (const adapter of adapters) {
        for (const context of contexts)
          await planOn(pipelines, model, adapter, context === undefined ? {} : { context });
      }
    }
  };

// One of a size: of software adapters, and of GPUs.
const sampleAdapters = [...vendorAdapters, ...adaptersBySize].filter((_, n) => runsRest || n % 2 === 0);
const adapters = runsRest ? [...vendorAdapters, ...allAdapters] : sampleAdapters;
// The default; split on hardware, but shorter than most windows; shorter than all.
const contexts = runsRest ? [undefined, 600, 64] : [undefined, 64];

const fixtures = [...(await fixtureModels()), ...(await smallModels())];
afterAll(() => Promise.all(fixtures.map(({ file }) => file.close())));

it('models of docs/models.md: every pipeline is listed', async () => {
  const models = [...fixtures, ...(await listedModels()), ...(await convolutionModels())];
  expect(await pipelinesWithout(isListed, planAll(models, adapters, contexts))).toEqual([]);
});

it.runIf(runsRest)(
  'other published models: every pipeline is listed, or its sizes in another mode, and its mode with other sizes',
  async () => {
    const isKnown = (one: PlannedPipeline) =>
      isListed(one) || (takesListedPaths(one) && listedSizes.has(sizesOf(one.kernel, one.variant)));
    expect(await pipelinesWithout(isKnown, planAll(await otherModels(), adapters, contexts))).toEqual([]);
  },
);

const types = Object.keys(weightFormats) as TensorType[];

it('models of every weight type: every pipeline is listed', async () => {
  const sample: readonly TensorType[] = ['Q8_0', 'F16', 'IQ4_XS'];
  const models = await Promise.all((runsRest ? types : sample).map(modelsOfType));
  const own = runsRest ? allAdapters : adaptersBySize;
  // Their heads are arbitrary; products, embeddings and experts have no paths and must be listed.
  const isKnown = (one: PlannedPipeline) => isListed(one) || takesListedPaths(one);
  expect(await pipelinesWithout(isKnown, planAll(models.flat(), own, [undefined]))).toEqual([]);
});

it.runIf(runsRest)('200 random models: every pipeline is listed, or takes listed paths', async () => {
  const models = await randomModels(rounds(200, 40), 26);
  expect(
    await pipelinesWithout(
      (one) => isListed(one) || takesListedPaths(one),
      planAll(models, sampleAdapters, [undefined]),
    ),
  ).toEqual([]);
});

it.runIf(runsRest)('plans with a lab kernel: every pipeline is listed, or takes listed paths', async () => {
  const own = adaptersBySize.filter(
    ({ software, subgroups }) => runsRest || [undefined, software ? 8 : 32].includes(subgroups?.[0]),
  );
  const generating = fixtures.filter(({ graph }) => !graph.shape.embedding);
  const unbound: string[] = [];
  const missing = await pipelinesWithout(
    (one) => isListed(one) || takesListedPaths(one),
    async (pipelines) => {
      for (const model of generating) {
        for (const target of targetsBySlot(model)) {
          for (const adapter of own)
            await planOn(pipelines, model, adapter, { targets: [target] }).catch((error: unknown) =>
              unbound.push(String(error)),
            );
        }
      }
    },
  );
  expect(missing).toEqual([]);
  // Ops and layers that the lab does not replace.
  const reasons =
    /the lab has no op|no separate kernel|rotates queries only|sinks, which the contract|stored in \d+ parts/;
  expect(unbound.filter((one) => !reasons.test(one))).toEqual([]);
});

/** A target of each role: layers that are alike give the same kernels. */
function targetsBySlot({ graph }: PlannedModel) {
  const bySlot = Map.groupBy(targetsOf(graph), ({ id }) => id.replace(/\.\d+\./, '.'));
  return [...bySlot.values()].flatMap((alike) => {
    const [first, last] = [alike[0], alike.at(-1)];
    // Windows differ between layers, and attention does not rotate where a lab kernel does.
    return [first, ...(first?.op === 'rope' ? [last] : [])].flatMap((one) => one ?? []);
  });
}

it.runIf(runsRest)('every listed variant is planned, or the only one that takes one of its paths', () => {
  const unplanned = [...listed].flatMap(([key, { kernel, variant }]) =>
    planned.has(key) || pathsOf(kernel, variant).some((path) => pathCounts.get(path) === 1) ? [] : [key],
  );
  expect(unplanned).toEqual([]);
});

it('a variant that is missing in a list is found', async () => {
  const [model] = fixtures;
  const isOther = ({ kernel }: PlannedPipeline) => kernel.op !== 'embed';
  const found = await pipelinesWithout(
    isOther,
    planAll([model as PlannedModel], vendorAdapters, [undefined]),
  );
  expect(found[0]).toMatch(/^embed\.wgsl\?FORMAT=.*: asked for by .* on least of WebGPU$/);
});
