/** Proposals without an author: the op's stubs, and rewrites of the best kernel. */
import type { LabClient } from '../client.ts';
import { readWgslSource } from '../local-kernels.ts';
import type { Proposal, Proposer, ProposerAnswer, SearchState } from './types.ts';
import { tuneOverrides, unrollLoops } from './rewrites.ts';
import { widenLoads } from './vector-loads.ts';

export class MechanicalProposer implements Proposer {
  readonly name = 'mechanical';
  readonly #client: LabClient;
  readonly #op: string;
  /** Format and component of the stubs. */
  readonly #component: string | undefined;
  readonly #targets: readonly string[];

  constructor(client: LabClient, op: string, targets: readonly string[], component?: string) {
    this.#client = client;
    this.#op = op;
    this.#targets = targets;
    this.#component = component;
  }

  /** Follows from the attempts alone, so that a search goes on after a kill. */
  async propose({ attempts, best }: SearchState): Promise<ProposerAnswer> {
    const tried = new Set(attempts.filter(({ by }) => by === this.name).map(({ idea }) => idea));
    for (const target of this.#targets) {
      const idea = `stub for ${target}`;
      if (tried.has(idea)) continue;
      const { source } = await this.#client.stub(this.#op, { target, component: this.#component });
      return { kind: 'proposal', proposal: { source, idea } };
    }
    if (best)
      for (const proposal of rewritesOf(best.source, best.n))
        if (!tried.has(proposal.idea)) return { kind: 'proposal', proposal };
    return { kind: 'done' };
  }
}

/** The rewrites of an attempt. */
function rewritesOf(source: string, n: number): Proposal[] {
  const registration = readWgslSource(source, `attempt ${n}`).kernels[0]?.registration;
  const tuned = registration && tuneOverrides(registration);
  const unrolled = unrollLoops(source);
  const widened = widenLoads(source);
  return [
    ...(tuned === undefined ? [] : [{ source: tuned, idea: `values of the overrides of ${n}` }]),
    ...(widened === undefined ? [] : [{ source: widened, idea: `loads of four numbers in ${n}` }]),
    ...(unrolled === undefined ? [] : [{ source: unrolled, idea: `unrolled loops of ${n}` }]),
  ];
}
