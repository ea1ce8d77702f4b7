/** A bounded search for a faster kernel: propose, gate, bind, compare, bench, keep the best. */
import { setTimeout as sleep } from 'node:timers/promises';
import { HostError } from '../../host-client/errors.ts';
import type { BenchResult, Finding, KernelRegistration } from '../../lab/types.ts';
import { programDigest } from '../../lab/digest.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { LabClient } from '../client.ts';
import { readWgslSource } from '../local-kernels.ts';
import { TemporaryBindings } from '../temporary-bindings.ts';
import type { Journal } from './journal.ts';
import {
  type Attempt,
  type AttemptVerdict,
  benchedVerdicts,
  type Proposal,
  type Proposer,
  type ProposerAnswer,
  type SearchState,
} from './types.ts';

export interface SearchOptions {
  readonly op: string;
  readonly goal: 'decode' | 'prefill';
  /** For all runs of the search together. */
  readonly budgetMs: number;
  /** Components to bind to; default: all that the kernel fits. */
  readonly components: readonly string[];
  /** Name of the config that the best kernel is saved as. */
  readonly config: string;
  /** Save the best kernel even if it is not faster. */
  readonly isSavedAnyway: boolean;
}

export interface SearchPorts {
  readonly client: LabClient;
  readonly journal: Journal;
  readonly proposers: readonly Proposer[];
  readonly onAttempt: (attempt: Attempt) => void;
  /** Aborted by Ctrl-C: the attempt in progress is left, and tried again by the next run. */
  readonly signal: AbortSignal;
}

interface BestResult {
  /** The bench of the best kernel. */
  readonly bench: BenchResult;
  /** What that bench says for the goal. */
  readonly verdict: AttemptVerdict;
  /** The bench of the kernels that were bound before to its components, if any. */
  readonly before?: BenchResult;
  /** Whether it is faster than the built-in kernels, and than those that were bound before, beyond the noise. */
  readonly isBetter: boolean;
  /** Name of the saved config. */
  readonly config?: string;
}

export interface SearchOutcome extends Partial<BestResult> {
  readonly attempts: readonly Attempt[];
  readonly best: Attempt | undefined;
  readonly isInterrupted: boolean;
  /** What went wrong besides attempts. */
  readonly problems: readonly string[];
}

/** Warnings of kernels that are checked everywhere: about other adapters, precision within the tolerance, and the compiler's. */
const harmlessWarnings: ReadonlySet<string> = new Set([
  'wgsl_warning',
  'wgsl_note',
  'more_messages',
  'large_private_memory',
  'wrong_in_other_subgroups',
  'lower_precision_than_builtin',
  'feature_unused',
]);
const maxFailures = 3;
const hostRetryMs = 1000;
/** Tries of a proposal while the gate is too busy to judge it. */
const maxBusyTries = 5;
const busyRetryMs = 5000;
const maxHostWaitMs = 180_000;
/** Longest time of a full bench. */
const fullBenchMs = 120_000;
/** Share of the budget that is kept for the bench of the best kernel. */
const reserve = 0.15;

/** Throws `HostError` where the host is away for longer than `maxHostWaitMs`. */
export async function runSearch(options: SearchOptions, ports: SearchPorts): Promise<SearchOutcome> {
  return await new Search(options, ports).run();
}

class Search {
  readonly #options: SearchOptions;
  readonly #ports: SearchPorts;
  readonly #attempts: Attempt[];
  readonly #bindings: TemporaryBindings;
  readonly #prefix: string;
  readonly #problems: string[] = [];
  /** Time that earlier runs took. */
  readonly #spentMs: number;
  readonly #start = performance.now();
  #stub = '';
  #hints: readonly string[] = [];

  constructor(options: SearchOptions, ports: SearchPorts) {
    this.#options = options;
    this.#ports = ports;
    this.#attempts = [...ports.journal.attempts];
    this.#spentMs = this.#attempts.reduce((sum, { elapsed_ms: ms }) => sum + ms, 0);
    this.#prefix = `search_${ports.journal.header.id}_`;
    this.#bindings = new TemporaryBindings(ports.client, (kernel) => kernel.startsWith(this.#prefix));
  }

  get #remainingMs(): number {
    return this.#options.budgetMs - this.#spentMs - (performance.now() - this.#start);
  }

  async run(): Promise<SearchOutcome> {
    const { client, signal } = this.#ports;
    let result: BestResult | undefined;
    try {
      this.#stub = (await client.stub(this.#options.op, { component: this.#options.components[0] })).source;
      await this.#proposeAll();
      const best = this.#best();
      if (best && !signal.aborted) result = await this.#keep(best);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      const { failures } = await this.#bindings.restore();
      this.#problems.push(...failures);
      await this.#deleteOthers();
    }
    return {
      attempts: this.#attempts,
      best: this.#best(),
      ...result,
      isInterrupted: signal.aborted,
      problems: this.#problems,
    };
  }

  async #proposeAll(): Promise<void> {
    const { journal, proposers, signal } = this.#ports;
    const { unfinished } = journal;
    if (unfinished) {
      const { n, by, idea, source, times } = unfinished;
      const why = finding('interrupted', 'the search was killed twice while this was tried');
      if (times < 2) await this.#try(n, by, { idea, source });
      else await this.#end({ n, by, idea, source, verdict: 'interrupted', findings: [why], elapsed_ms: 0 });
    }
    const failures = new Map<Proposer, number>();
    while (!signal.aborted && this.#remainingMs > reserve * this.#options.budgetMs) {
      // In their order: rewrites of a new best kernel come before the next proposal of an author.
      let isDone = true;
      for (const proposer of proposers) {
        const failed = failures.get(proposer) ?? 0;
        if (failed >= maxFailures) continue;
        const answer = await this.#ask(proposer);
        if (answer.kind === 'done') continue;
        isDone = false;
        if (answer.kind === 'proposal') {
          failures.delete(proposer);
          await this.#try(this.#nextNumber(), proposer.name, answer.proposal);
        } else {
          failures.set(proposer, failed + 1);
          const message = `${proposer.name}: ${answer.message}`;
          await journal.note(message);
          if (failed + 1 === maxFailures)
            this.#problems.push(`gave up after ${maxFailures} failures; the last: ${message}`);
        }
        break;
      }
      if (isDone) return;
    }
  }

  /** A proposer that thinks until the budget ends has nothing to propose. */
  async #ask(proposer: Proposer): Promise<ProposerAnswer> {
    const { signal } = this.#ports;
    const end = AbortSignal.timeout(Math.max(1, Math.ceil(this.#remainingMs)));
    try {
      return await proposer.propose(this.#state(), AbortSignal.any([signal, end]));
    } catch (error) {
      if (signal.aborted || !end.aborted) throw error;
      return { kind: 'done' };
    }
  }

  #nextNumber(): number {
    return this.#attempts.reduce((most, { n }) => Math.max(most, n), 0) + 1;
  }

  #state(): SearchState {
    const { op, goal } = this.#options;
    return {
      op,
      goal,
      stub: this.#stub,
      best: this.#best(),
      last: this.#attempts.at(-1),
      hints: this.#hints,
      attempts: this.#attempts.map(({ source: _source, ...rest }) => rest),
      remaining_s: Math.max(0, Math.round(this.#remainingMs / 1000)),
    };
  }

  /** The honest kernel whose interval begins highest: a short bench is noisy. */
  #best(): Attempt | undefined {
    return this.#attempts
      .filter(
        ({ verdict, low }) => (benchedVerdicts as readonly string[]).includes(verdict) && low !== undefined,
      )
      .reduce<Attempt | undefined>(
        (best, one) => ((best?.low ?? -1) >= (one.low ?? 0) ? best : one),
        undefined,
      );
  }

  /** Tries a proposal. It is in the journal before the host sees it. */
  async #try(n: number, by: string, proposal: Proposal): Promise<void> {
    const { journal, signal } = this.#ports;
    await journal.begin(n, by, proposal);
    const start = performance.now();
    let result: (Pick<Attempt, 'verdict' | 'findings'> & Partial<Attempt>) | undefined;
    for (let tries = 1; !result; tries++) {
      try {
        result = await this.#judge(n, proposal);
      } catch (error) {
        if (signal.aborted || !(error instanceof HostError)) throw error;
        if (error.code === 'lab_busy' && tries < maxBusyTries) {
          await sleep(busyRetryMs, undefined, { signal });
          continue;
        }
        result = {
          verdict: error.isTransient ? 'host_lost' : 'not_bindable',
          findings: [finding(error.code, error.message)],
        };
        if (error.isTransient) await this.#awaitHost(error);
      }
    }
    const { idea, source } = proposal;
    await this.#end({ n, by, idea, source, ...result, elapsed_ms: performance.now() - start });
    // What was bound before runs until the next attempt, and every attempt begins from it.
    const { failures } = await this.#bindings.restore();
    this.#problems.push(...failures);
  }

  async #end(attempt: Attempt): Promise<void> {
    this.#attempts.push(attempt);
    await this.#ports.journal.end(attempt);
    this.#ports.onAttempt(attempt);
  }

  async #judge(
    n: number,
    { source }: Proposal,
  ): Promise<Pick<Attempt, 'verdict' | 'findings'> & Partial<Attempt>> {
    const { client, signal } = this.#ports;
    const { op } = this.#options;
    const [kernel] = readWgslSource(source, `attempt ${n}`).kernels;
    const { registration, faults = [] } = kernel ?? {};
    if (!registration) return { verdict: 'invalid', findings: faults };
    if (registration.op !== op)
      return { verdict: 'invalid', findings: [finding('op', `op: expected ${op}, got ${registration.op}`)] };
    const twin = this.#twinOf(registration);
    if (twin)
      return { verdict: 'duplicate', findings: [finding('duplicate', `the same as attempt ${twin.n}`)] };
    const named = { ...registration, name: this.#nameOf(n) };
    const report = await client.register(named, signal);
    const found = report.stages.flatMap(({ findings }) => findings);
    if (!report.accepted) return { verdict: 'rejected', findings: found.filter(isError) };
    const flags = found.filter(({ severity, code }) => severity === 'warning' && !harmlessWarnings.has(code));
    if (flags.length > 0) return { verdict: 'flagged', findings: flags };
    await this.#bind(named.name);
    const parity = await client.runParity(signal);
    if (!parity.ok) {
      const wrong = parity.components.find(({ ok }) => !ok);
      const where = wrong
        ? `${wrong.id}: NMSE ${wrong.nmse}`
        : `the logits: KL divergence ${parity.logits.kl}`;
      return { verdict: 'parity_failed', findings: [finding('parity_failed', where)] };
    }
    const bench = await client.bench({ mode: 'quick', kernels: [named.name] }, signal);
    const { verdict, ratio, ci95 } = this.#score(bench);
    this.#hints = await client.profile({ kernel: named.name }).then(
      ({ hints }) => hints.map(({ message }) => message),
      () => [],
    );
    const findings = bench.warnings.map((message) => finding('bench', message));
    return { verdict, findings, ratio, low: ci95.low, high: ci95.high };
  }

  #score({ verdict, delta, ratio_ci95: [low, high], prefill, decode }: BenchResult) {
    // What any row says of skipped work counts for all.
    const isSuspect = [verdict, prefill.verdict, ...decode.map((row) => row.verdict)].includes('suspect');
    const scored: { verdict: AttemptVerdict; ratio: number; ci95: { low: number; high: number } } =
      this.#options.goal === 'prefill'
        ? { verdict: prefill.verdict, ratio: prefill.ratio, ci95: prefill.ci95 }
        : { verdict, ratio: 1 + delta.decode, ci95: { low, high } };
    return isSuspect ? { ...scored, verdict: 'suspect' as const } : scored;
  }

  /** @returns the kernels that it replaces */
  async #bind(kernel: string): Promise<readonly string[]> {
    const { client, signal } = this.#ports;
    let { components } = this.#options;
    if (components.length === 0) {
      const [{ slots }, { spans }] = await Promise.all([client.parts(signal), client.graph(signal)]);
      const fitting = slots.filter(({ compatible }) => compatible.includes(kernel)).map(({ slot }) => slot);
      components = withoutOverlaps(
        fitting,
        new Map(spans.map(({ id, nodes }) => [slotOf(id), nodes.map(slotOf)])),
      );
      if (components.length === 0)
        throw new HostError('unknown_component', `no component of the model takes ${kernel}`, 400);
    }
    const { replaced } = await this.#bindings.bind({ kernel, components }, signal);
    return replaced.filter((name) => !name.startsWith(this.#prefix));
  }

  /** Measures the best kernel again, in full where there is time, and saves it if it is better than what the user has. */
  async #keep({ n, source }: Attempt): Promise<BestResult> {
    const { client, signal } = this.#ports;
    const registration = readWgslSource(source, `attempt ${n}`).kernels[0]
      ?.registration as KernelRegistration;
    const named = { ...registration, name: this.#nameOf(n) };
    const report = await client.register(named, signal);
    if (!report.accepted) throw new Error(`the gate does not accept attempt ${n} any more`);
    const mode = this.#remainingMs > fullBenchMs ? 'full' : 'quick';
    const replaced = await this.#bind(named.name);
    let before: BenchResult | undefined;
    if (replaced.length > 0) {
      const { failures } = await this.#bindings.restore();
      this.#problems.push(...failures);
      before = await client.bench({ mode, kernels: replaced }, signal);
      await this.#bind(named.name);
    }
    const bench = await client.bench({ mode, kernels: [named.name] }, signal);
    const { verdict, ci95 } = this.#score(bench);
    const isBetter =
      verdict === 'faster' && (before === undefined || ci95.low > this.#score(before).ci95.high);
    const result = { bench, verdict, isBetter, ...(before ? { before } : {}) };
    if (!isBetter && !this.#options.isSavedAnyway) return result;
    // The evidence of a config is a bench of all its bindings.
    if (bench.beside) await client.bench({ mode: 'quick' }, signal);
    const { config } = this.#options;
    await client.saveConfig(config);
    return { ...result, config };
  }

  #nameOf(n: number): string {
    return `${this.#prefix}${n}`;
  }

  #twinOf(registration: KernelRegistration): Attempt | undefined {
    const key = (one: KernelRegistration) => `${programDigest(one)} ${JSON.stringify(one.tunables ?? {})}`;
    return this.#attempts.find(({ n, source }) => {
      const other = readWgslSource(source, `attempt ${n}`).kernels[0]?.registration;
      return other !== undefined && key(other) === key(registration);
    });
  }

  /** The kernels of a search are not kept in the list of the host; its history and the journal have them. */
  async #deleteOthers(): Promise<void> {
    const { client } = this.#ports;
    try {
      const { kernels } = await client.parts();
      for (const { name } of kernels) if (name.startsWith(this.#prefix)) await client.deleteKernel(name);
    } catch (error) {
      this.#problems.push(`kernels of the search could not be deleted: ${errorMessage(error)}`);
    }
  }

  async #awaitHost(error: HostError): Promise<void> {
    const { client, signal } = this.#ports;
    for (const start = performance.now(); ; ) {
      if (signal.aborted) return;
      try {
        await client.parts(signal);
        return;
      } catch (again) {
        if (performance.now() - start > maxHostWaitMs || !(again instanceof HostError && again.isTransient))
          throw error;
      }
      await sleep(hostRetryMs, undefined, { signal });
    }
  }
}

/** The slot of a component or span: its place in any layer. */
const slotOf = (id: string): string => id.replace(/^layers\.\d+\./, 'layers.*.');

/** Slots that have no component in common, longer spans first: they leave more of the graph's fusion in place. */
export function withoutOverlaps(
  slots: readonly string[],
  nodesOfSpan: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const nodesOf = (slot: string) => nodesOfSpan.get(slot) ?? [slot];
  const taken = new Set<string>();
  const kept = new Set<string>();
  for (const slot of slots.toSorted((a, b) => nodesOf(b).length - nodesOf(a).length)) {
    const nodes = nodesOf(slot);
    if (nodes.some((node) => taken.has(node))) continue;
    for (const node of nodes) taken.add(node);
    kept.add(slot);
  }
  return slots.filter((slot) => kept.has(slot));
}

const isError = ({ severity }: Finding): boolean => severity === 'error';
const finding = (code: string, message: string): Finding => ({ code, severity: 'info', message });
