/** Builds mixture-of-experts feed-forwards from metadata and tensors of a file. */
import { mostExperts, mostUsed } from '../../../kernels/route.ts';
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { ExpertActivation, ExpertShape, ExpertUnit } from '../graph.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import { fieldOf, numberOf, wholeOf } from './metadata.ts';
import type { Tensors } from './tensors.ts';

type Shares = Extract<ExpertUnit, { readonly op: 'route' }>['shares'];

/** Differences between mixture-of-experts feed-forwards. */
export interface ExpertTraits {
  readonly shape: ExpertShape;
  /** How the shares of a token's experts are computed. */
  readonly shares: Shares;
  /** Factor for all shares. */
  readonly scale?: number;
  readonly activation: ExpertActivation;
}

/** Value of `expert_gating_func` for a softmax router. */
const softmax = 1;

/**
 * Reads `expert_count`, `expert_used_count` and `expert_feed_forward_length`, and rejects unsupported variants:
 * experts shared by all tokens, groups of experts, and gating other than softmax.
 * @throws ModelFileError `bad_metadata`, `unsupported_architecture`
 */
export function expertsOf(file: ModelFile): ExpertShape {
  const name = (key: string) => `${String(file.metadata.get('general.architecture'))}.${key}`;
  const whole = (key: string, most: number, why: string) => wholeOf(file, key, [1, most], { why });
  const count = whole('expert_count', mostExperts, 'the most experts a router supports');
  const most = Math.min(count, mostUsed);
  const used = whole(
    'expert_used_count',
    most,
    most === count ? 'the number of experts' : 'the most experts of one token',
  );
  const feedForward = whole('expert_feed_forward_length', 2 ** 20, 'the most rows of an expert');
  if (feedForward % 32 !== 0) {
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: metadata '${name('expert_feed_forward_length')}' must be a multiple of 32, got ${feedForward}`,
    );
  }
  const refuse = (key: string, most: number, what: string) => {
    const value = numberOf(file, key, 0);
    if (value <= most) return;
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: ${what} (metadata '${name(key)}' is ${value}) are not supported`,
    );
  };
  refuse('expert_shared_count', 0, 'experts that all tokens share');
  refuse('expert_shared_feed_forward_length', 0, 'experts that all tokens share');
  refuse('expert_group_count', 1, 'groups of experts');
  refuse('expert_gating_func', softmax, 'routers other than softmax');
  return { count, used, feedForward };
}

/** True when a layer has experts: some models start with dense layers, or mix the two kinds. */
export const hasExperts = (tensors: Tensors, layer: number): boolean =>
  tensors.has(`blk.${layer}.ffn_gate_inp.weight`) || !tensors.has(`blk.${layer}.ffn_gate.weight`);

/** Shares are normalized over the selected experts unless the file says otherwise. */
export const sharesOf = (file: ModelFile): Shares =>
  fieldOf(file, 'expert_weights_norm') === false ? 'of_all' : 'of_all_normalised';

/** Adds: hidden += the expert outputs for `normed`, each times its share. */
export function expertFeedForward(
  g: GraphBuilder,
  tensors: Tensors,
  { layer, width }: { layer: number; width: number },
  { shape, shares, scale = 1, activation }: ExpertTraits,
): void {
  const { count, used, feedForward } = shape;
  const name = (part: string) => `blk.${layer}.${part}`;
  const id = (slot: string) => `layers.${layer}.${slot}`;
  const router = tensors.linear(name('ffn_gate_inp'), count, width);
  const [bias] = router.biases;
  g.product(
    'ffn.router',
    [
      {
        slot: 'ffn.router',
        weight: router.weight,
        rows: count,
        ...(bias === undefined ? {} : { bias }),
      },
    ],
    { from: 'normed', to: 'router' },
  );
  g.unit('ffn.route', { op: 'route', shares, scale }, { inputs: [id('ffn.router')], width: 2 * used });
  const product = (role: 'gate' | 'up' | 'down', inputs: string[]) => {
    const [rows, columns] = role === 'down' ? [width, feedForward] : [feedForward, width];
    const { weight, biases } = tensors.experts(name(`ffn_${role}_exps`), { count, rows, columns });
    const [own] = biases;
    g.unit(
      `ffn.experts_${role}`,
      { op: 'expert_matmul', role, weight, activation, ...(own === undefined ? {} : { bias: own }) },
      { inputs: [id('ffn.route'), ...inputs], width: used * rows, weights: [weight, ...biases] },
    );
  };
  product('gate', ['normed']);
  product('up', ['normed', id('ffn.experts_gate')]);
  product('down', [id('ffn.experts_up')]);
  const inputs = [id('ffn.route'), id('ffn.experts_down'), 'hidden'];
  g.unit('ffn.experts_sum', { op: 'expert_sum' }, { inputs, width });
}
