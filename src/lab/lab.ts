import type { WgslSources } from '../../kernels/assemble.ts';
import { contracts } from '../../kernels/contracts.ts';
import {
  canBind,
  type LabDispatch,
  type LabKernel,
  type ResidentEngine,
  type StepPlans,
  uncheckedDawnFeatures,
} from '../engine/index.ts';
import { runBench } from './bench/run-bench.ts';
import { RunningBenches } from './bench/running.ts';
import {
  type BoundKernel,
  formatsOf,
  KernelBindings,
  kernelDigests,
  kernelsOf,
  targetsByKernel,
} from './bindings.ts';
import { canonicalJson } from '../signing/canonical-json.ts';
import { LabConfigs } from './configs/lab-configs.ts';
import { programDigest } from './digest.ts';
import { GateProcess } from './gate/gate-process.ts';
import type { KernelHistory } from './kernel-history.ts';
import { describeGraph, describeParts, type KernelSummaries } from './live/describe.ts';
import { DriftCheck } from './live/drift-check.ts';
import { fitTargets } from './live/fit.ts';
import { maxMeanKl } from './live/kl-limit.ts';
import { freshSeed, LiveModel } from './live/live-model.ts';
import { unfusedKernels } from './live/lab-kernel.ts';
import { componentParity, logitsParity, maxTextTokens } from './live/parity.ts';
import { createBenchPort } from './live/bench-port.ts';
import { describeOp } from './ops/descriptor.ts';
import { Quarantine } from './quarantine.ts';
import type { RegisteredKernel } from './registry.ts';
import {
  captureUnavailableFinding,
  findUnsupportedFormats,
  addParityFindings,
  fusedBuiltinFinding,
} from './report-findings.ts';
import { Registrations } from './registrations.ts';
import { rejectionReason, stateReason } from './state-reason.ts';
import { renderHeader } from './kernel-header.ts';
import { contractOf, readsWeights, renderStub, stubTargets } from './stubs.ts';
import { matchesGlob, resolveTargets } from './targets.ts';
import {
  type BenchEvidence,
  type BenchProgress,
  type BenchRecord,
  type BenchRequest,
  type BenchResult,
  type BenchRound,
  type BenchSummary,
  type BindOutcome,
  type BindRequest,
  type ConfigEnvelope,
  type Finding,
  type Fingerprint,
  type ImportConfigRequest,
  type ImportedConfig,
  type KernelRegistration,
  type KernelRegistrationReport,
  type KernelVersionDetail,
  type KernelVersions,
  type Lab,
  LabError,
  type LabGraph,
  type LabKernelDetail,
  type LabParts,
  type LabProfile,
  type LabStub,
  type OpDescriptor,
  type ParityMode,
  type ParityRunResult,
  type ProfileRequest,
  type RunningBench,
  type StubOptions,
  type ValidationReport,
} from './types.ts';

export interface LabOptions {
  readonly engine: ResidentEngine;
  readonly wgsl: WgslSources;
  readonly dataDir: string;
  /** Entry file of the child process that runs candidate kernels. */
  readonly childPath: string;
  /** Part of the adapter's name, as in the engine's options. */
  readonly adapter?: string | undefined;
  /** Version of the Dawn binding. */
  readonly dawn: string;
  /** Version of the host. */
  readonly version: string;
  /** Dawn toggles that the host sets. */
  readonly toggles: readonly string[];
  readonly trustedKeys: readonly string[];
  readonly allowUnverified: boolean;
  /** Registrations of earlier processes; without it, they end with this one. */
  readonly history?: KernelHistory | undefined;
  /** Called with messages for the operator. */
  readonly onWarning: (message: string) => void;
}

/** How long a registration waits for a busy device to capture activations. */
const captureTimeoutMs = 1000;
/** Number of positions in the sample text at which a parity run may begin. */
const textOffsets = 64;

/** Kernel lab of one resident model. */
export class ResidentLab implements Lab {
  readonly #options: LabOptions;
  readonly #quarantine: Quarantine;
  readonly #gate: GateProcess;
  readonly #bindings: KernelBindings;
  readonly #driftCheck: DriftCheck;
  readonly #unfused: ReadonlyMap<string, LabKernel>;
  readonly #registrations: Registrations;
  readonly #configs: LabConfigs;
  readonly #benches = new RunningBenches();
  #parityMode: ParityMode = { mode: 'standard' };
  #liveModel: LiveModel | undefined;
  #isWarmed = false;
  #lastBench: BenchEvidence | undefined;
  /** The bindings when the last bench began. */
  #lastBenchBindings: readonly BoundKernel[] = [];
  /** GPU times of the bound arm in the last bench, by dispatch. */
  #gpuMs: ReadonlyMap<string, number> = new Map();

  constructor(options: LabOptions, quarantine: Quarantine) {
    const { engine, wgsl, childPath, adapter } = options;
    this.#options = options;
    this.#registrations = new Registrations(options.history, options.onWarning);
    this.#quarantine = quarantine;
    this.#unfused = unfusedKernels(wgsl);
    this.#gate = new GateProcess({ childPath, adapter });
    this.#bindings = new KernelBindings(engine, quarantine, this.#unfused);
    this.#driftCheck = new DriftCheck({ engine, bindings: this.#bindings, unfused: this.#unfused });
    this.#configs = new LabConfigs(options, () => this.#fingerprint(0));
    engine.onBindingsLost = (reason) => this.#quarantineLostKernels(reason);
  }

  /** Opens the child's device before the first registration: a caller that uses the lab will probably register soon. */
  #warm(): void {
    if (this.#isWarmed) return;
    this.#isWarmed = true;
    // `register` reports a child that cannot start.
    this.#gate.warmUp().catch(() => undefined);
  }

  async graph(): Promise<LabGraph> {
    this.#warm();
    const { engine } = this.#options;
    return await describeGraph(engine.model.id, engine.runner, this.#currentLiveModel().targets, this.#gpuMs);
  }

  async parts(): Promise<LabParts> {
    this.#warm();
    const { runner } = this.#options.engine;
    const bindableStates = new Set<KernelSummaries[number]['state']>(['accepted']);
    if (this.#options.allowUnverified) bindableStates.add('unverified');
    return await describeParts(
      runner,
      this.#currentLiveModel().targets,
      this.#kernelSummaries(),
      bindableStates,
    );
  }

  ops(): readonly OpDescriptor[] {
    this.#warm();
    const { features } = this.#options.engine.adapter;
    return [...contracts.values()].map((contract) => describeOp(contract, features));
  }

  async stub(op: string, { target = 'plain', format, component }: StubOptions = {}): Promise<LabStub> {
    this.#warm();
    const { engine, wgsl } = this.#options;
    const contract = contractOf(op);
    const targets = stubTargets(op, engine.adapter.features);
    const chosen = targets.find((one) => one === target);
    if (chosen === undefined) {
      throw new LabError(
        'invalid_target',
        `target: expected one of ${targets.join(', ')} for the op ${op} on this adapter, got '${target}'.`,
      );
    }
    if (format !== undefined && !readsWeights(contract))
      throw new LabError('invalid_target', `format: the op ${op} reads no weights, got '${format}'.`);
    const ofComponent = component === undefined ? undefined : await this.#formatOf(component, op);
    const weights = format ?? ofComponent ?? engine.model.quantization.toLowerCase();
    const stub = renderStub(wgsl, op, chosen, weights);
    return {
      op,
      target: chosen,
      ...(readsWeights(contract) ? { format: weights } : {}),
      source: `${renderHeader({ op, ...stub })}${stub.source}`,
    };
  }

  /** Weight format of a component that a kernel of the op can run; undefined where it reads none. */
  async #formatOf(component: string, op: string): Promise<string | undefined> {
    const live = this.#currentLiveModel();
    const [target] = resolveTargets({ kernel: op, components: [component] }, op, live.targets.targets);
    const dispatches = await live.dispatches(op);
    return dispatches.get(target?.id ?? '')?.[0]?.format;
  }

  kernel(name: string): LabKernelDetail {
    const registered = this.#registrations.require(name);
    const components = this.#bindings.all.flatMap(({ kernel, target }) =>
      kernel.name === name ? [target] : [],
    );
    const { registration, report, at } = registered;
    const reason = this.#reasonOf(registered);
    return {
      registration,
      at,
      report,
      state: this.#stateOf(registered),
      ...(reason === undefined ? {} : { reason }),
      components,
    };
  }

  async deleteKernel(name: string): Promise<void> {
    const { components } = this.kernel(name);
    if (components.length > 0)
      throw new LabError(
        'kernel_bound',
        `The kernel '${name}' runs ${components.join(', ')}: unbind it first.`,
      );
    await this.#registrations.delete(name);
  }

  async versions(nameOrDigest: string): Promise<KernelVersions> {
    return await this.#registrations.versions(nameOrDigest);
  }

  async version(name: string, at: string): Promise<KernelVersionDetail> {
    return await this.#registrations.version(name, at);
  }

  /** Restores what earlier processes registered. */
  async restore(): Promise<void> {
    await this.#registrations.restore(() => this.#environment());
  }

  /** What the result of a check depends on beside the kernel. */
  async #environment(): Promise<string> {
    const { version } = this.#options;
    const { adapter, backend, driver, dawn, toggles, features, model } = await this.#fingerprint(0);
    return canonicalJson({ adapter, backend, driver, dawn, toggles, features, model, version });
  }

  async register(registration: KernelRegistration, signal: AbortSignal): Promise<KernelRegistrationReport> {
    const { op } = registration;
    contractOf(op);
    const live = this.#currentLiveModel();
    const captureSignal = AbortSignal.any([signal, AbortSignal.timeout(captureTimeoutMs)]);
    const shapes = await live.shapes(op, captureSignal);
    signal.throwIfAborted();
    const { mode, tolerance_scale: toleranceScale = 1 } = this.#parityMode;
    const program = programDigest(registration);
    const seed = this.#parityMode.seed ?? this.#registrations.failedSeedOf(program) ?? freshSeed();
    const labDispatches = [...(await live.dispatches(op)).values()].flat();
    const formats = this.#formatsFor(labDispatches);
    const job = {
      registration,
      mode,
      toleranceScale,
      seed,
      formats,
      live: shapes,
    };
    const gateReport = await this.#gate.register(job, signal);
    const report = addParityFindings(gateReport, [
      ...(shapes.captured[op] ? [] : [captureUnavailableFinding]),
      ...findUnsupportedFormats(registration, formats),
      ...(gateReport.tuning ? await this.#fusedBuiltin(op) : []),
    ]);
    await this.#registrations.add(
      { registration, report },
      { environment: () => this.#environment(), isBound: (name) => this.#isBound(name) },
    );
    return report;
  }

  async profile(request: ProfileRequest, signal: AbortSignal): Promise<LabProfile> {
    const { registration, report } = this.#registrations.require(request.kernel);
    const { op } = registration;
    const live = this.#currentLiveModel();
    const { caps } = this.#options.engine.runner.gpu;
    // Weights of live shapes are drawn anew, so nothing is captured.
    const byOp = { [op]: await live.distinctShapes(op) };
    const labDispatches = [...(await live.dispatches(op)).values()].flat();
    return await this.#gate.profile(
      {
        registration,
        formats: this.#formatsFor(labDispatches),
        live: { byOp, captured: {} },
        seed: freshSeed(),
        tuning: report.tuning,
        isSoftware: caps.software,
        lanes: request.lanes ?? (caps.software ? 32 : (caps.subgroupSize ?? 32)),
        phase: request.phase ?? 'decode',
      },
      signal,
    );
  }

  async bind(request: BindRequest, signal: AbortSignal): Promise<BindOutcome> {
    this.#requireGenerativeModel();
    const registered = this.#requireBindable(request.kernel);
    const { registration } = registered;
    const live = this.#currentLiveModel();
    const targets = resolveTargets(request, registration.op, live.targets.targets);
    const added = await fitTargets(
      live,
      registered,
      targets.map(({ id }) => id),
    );
    const drift = await this.#driftCheck.requireAlone(live, registered, added, signal);
    for (;;) {
      const { all } = this.#bindings;
      const { next, replaced } = this.#bindings.after(added);
      const together = await this.#driftCheck.requireTogether(next, signal);
      const before = await this.#countDispatches();
      // Another request bound or unbound kernels in the meantime: those are checked together, too.
      if (!(await this.#bindings.add(added, all))) continue;
      this.#gpuMs = new Map();
      const dispatches = { before, after: await this.#countDispatches() };
      const components = targets.map(({ id }) => id);
      const drifts = { ...(drift ? { drift } : {}), ...(together ? { drift_together: together } : {}) };
      return { bound: true, components, replaced, dispatches, ...drifts };
    }
  }

  async unbindSome(glob: string): Promise<readonly string[]> {
    const bound = [...new Set(this.#bindings.all.map(({ target }) => target))];
    const matched = bound.filter((id) => matchesGlob(glob, id));
    if (matched.length === 0) {
      throw new LabError(
        'unknown_component',
        `No bound component matches '${glob}'; bound components: ${bound.join(', ') || 'none'}.`,
      );
    }
    await this.#bindings.remove(matched);
    this.#gpuMs = new Map();
    return matched;
  }

  async unbind(): Promise<void> {
    await this.#bindings.clear();
    this.#gpuMs = new Map();
  }

  get parityMode(): ParityMode {
    return this.#parityMode;
  }

  setParityMode(mode: ParityMode): ParityMode {
    this.#parityMode = mode;
    return mode;
  }

  async runParity(signal: AbortSignal): Promise<ParityRunResult> {
    this.#requireGenerativeModel();
    const { engine } = this.#options;
    const live = this.#currentLiveModel();
    return await engine.exclusive(async (runner) => {
      const { boundPlans: bound } = runner;
      const mode = this.#parityMode;
      const seed = mode.seed ?? freshSeed();
      // Each seed selects another part of the text.
      const text = live.sampleTokens(maxTextTokens + textOffsets).slice(seed % textOffsets);
      const standIns = new Set(this.#unfused.values());
      const components = bound ? await componentParity(runner, bound, text, { mode, standIns, signal }) : [];
      const builtin = { singleToken: runner.plan, multiToken: runner.plan, destroy() {} };
      const logits = await logitsParity(runner, bound ?? builtin, text, signal);
      const boundContracts = this.#bindings.all.map(({ kernel }) => kernel.contract);
      const ok = components.every((one) => one.ok) && logits.kl <= maxMeanKl(boundContracts);
      return {
        seed,
        ok,
        mode: mode.mode,
        tolerance_scale: mode.tolerance_scale ?? 1,
        components,
        logits,
      };
    }, signal);
  }

  async bench(
    request: BenchRequest,
    signal: AbortSignal,
    onProgress: (progress: BenchProgress) => void = () => {},
  ): Promise<BenchResult> {
    this.#requireGenerativeModel();
    return await this.#benches.run({ signal, onProgress }, async (id, ended, report) => {
      const rounds: BenchRound['samples'][] = [];
      const bound = this.#bindings.all;
      const { measured } = this.#armsOf(request.kernels);
      const result = await this.#bench(request, ended, (progress) => {
        if (progress.stage === 'round') rounds.push(progress.samples);
        report(progress);
      });
      const answer = { id, ...result };
      this.#lastBench = { result: answer, rounds, at: new Date().toISOString() };
      this.#lastBenchBindings = bound;
      const { engine, version } = this.#options;
      await this.#registrations.addBench(this.#lastBench, {
        mode: request.mode,
        model: engine.model.id,
        version,
        measured,
      });
      return answer;
    });
  }

  async finishedBenches(): Promise<readonly BenchSummary[]> {
    return await this.#registrations.benches();
  }

  async finishedBench(id: string): Promise<BenchRecord> {
    return await this.#registrations.bench(id);
  }

  /** The last bench, if the kernels that are bound now are those that it measured, on the same components. */
  #benchOfBindings(): BenchEvidence | undefined {
    const bench = this.#lastBench;
    if (!bench) return undefined;
    const bound = canonicalJson(kernelDigests(this.#bindings.all));
    const measured = canonicalJson(bench.result.fingerprint.kernels);
    return bound === measured && this.#lastBenchBindings === this.#bindings.all ? bench : undefined;
  }

  benches(): readonly RunningBench[] {
    return this.#benches.list();
  }

  cancelBench(id: string): void {
    this.#benches.cancel(id);
  }

  async #bench(
    request: BenchRequest,
    signal: AbortSignal,
    onProgress: (progress: BenchProgress) => void,
  ): Promise<Omit<BenchResult, 'id'>> {
    const { engine } = this.#options;
    const live = this.#currentLiveModel();
    const costs = await live.costFunction();
    return await engine.exclusive(async (runner, letOthersRun) => {
      const seed = request.seed ?? freshSeed();
      const { measured, beside } = this.#armsOf(request.kernels);
      onProgress({ stage: 'peaks' });
      const peaks = await live.peaks(async () => {
        await letOthersRun();
        signal.throwIfAborted();
      });
      const { boundPlans: bound } = runner;
      const fingerprint = await this.#fingerprint(seed, measured);
      const measure = (baseline?: StepPlans) =>
        runBench(createBenchPort(runner, bound, { costOf: costs, letOthersRun, baseline }), request, {
          seed,
          signal,
          peaks,
          fingerprint,
          beside: [...targetsByKernel(beside).keys()],
          onProgress,
        });
      const result =
        beside.length === 0 ? await measure() : await engine.tryBindings(beside, this.#unfused, measure);
      // Keep the times only if the same kernels are still bound.
      this.#gpuMs = new Map(
        runner.boundPlans !== bound ? [] : result.components.map(({ id, gpu_ms: ms }) => [id, ms]),
      );
      return result;
    }, signal);
  }

  /**
   * The bindings that a bench measures, and those that run in both arms.
   * @throws LabError `nothing_bound` if none of the named kernels is bound
   */
  #armsOf(names: readonly string[] | undefined): Record<'measured' | 'beside', readonly BoundKernel[]> {
    const { all } = this.#bindings;
    if (!names) return { measured: all, beside: [] };
    const [measured, beside] = [true, false].map((isNamed) =>
      all.filter(({ kernel }) => names.includes(kernel.name) === isNamed),
    ) as [BoundKernel[], BoundKernel[]];
    if (measured.length === 0) {
      throw new LabError(
        'nothing_bound',
        `${names.join(', ')}: not bound, so there is nothing to measure; bound kernels: ${[...targetsByKernel(all).keys()].join(', ') || 'none'}.`,
      );
    }
    return { measured, beside };
  }

  async validate(request: { path?: string | undefined; envelope?: unknown }): Promise<ValidationReport> {
    return (await this.#configs.validate(request)).report;
  }

  async configNames(): Promise<readonly string[]> {
    return await this.#configs.names();
  }

  async saveConfig(name: string): Promise<ConfigEnvelope> {
    return await this.#configs.save(name, this.#bindings.all, this.#benchOfBindings());
  }

  async config(name: string): Promise<string> {
    return await this.#configs.read(name);
  }

  async importConfig(request: ImportConfigRequest): Promise<ImportedConfig> {
    return await this.#configs.import(request);
  }

  async deleteConfig(name: string): Promise<void> {
    await this.#configs.delete(name);
  }

  /**
   * Binds a saved config. Validates it, and checks every kernel again on this adapter.
   * @throws LabError with the reason; nothing is bound then
   */
  async bindConfig(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const envelope = await this.#configs.requireValid(name);
    const bound: string[] = [];
    try {
      for (const { kernel, components } of envelope.bindings) {
        const registration = envelope.kernels.find((one) => one.name === kernel);
        if (!registration)
          throw new LabError(
            'unknown_kernel',
            `The config '${name}' does not contain its kernel '${kernel}'.`,
          );
        const gateReport = await this.register(registration, signal);
        if (!gateReport.accepted) {
          throw new LabError(
            'not_bindable',
            `The kernel '${kernel}' of the config '${name}' fails the gate on this adapter: ${rejectionReason(gateReport)}`,
          );
        }
        bound.push(...(await this.bind({ kernel, components }, signal)).components);
      }
      return bound;
    } catch (error) {
      await this.unbind();
      throw error;
    }
  }

  /**
   * Stops the child. Kernels stay bound until the engine closes. After this, the end of the process quarantines
   * nothing.
   */
  async close(): Promise<void> {
    await this.#quarantine.disarm().catch(() => undefined);
    await this.#gate.close();
  }

  /** Throws for a model that makes no text: kernels are compared by the tokens that a model generates. */
  #requireGenerativeModel(): void {
    const { id, kind } = this.#options.engine.model;
    if (kind === 'generate') return;
    throw new LabError(
      'not_bindable',
      `The resident model '${id}' ${kind === 'embed' ? 'is an embedding model' : 'ranks documents'}; the lab binds, compares and benchmarks kernels only on models that generate text.`,
    );
  }

  /** The model on the current device; rebuilt after a device loss. */
  #currentLiveModel(): LiveModel {
    const { engine, wgsl } = this.#options;
    if (this.#liveModel?.runner !== engine.runner)
      this.#liveModel = new LiveModel(engine, wgsl, this.#unfused);
    return this.#liveModel;
  }

  #requireBindable(name: string): RegisteredKernel {
    const kernel = this.#registrations.require(name);
    const { report } = kernel;
    const refuse = (why: string) =>
      new LabError('not_bindable', `The kernel '${name}' cannot be bound: ${why}.`);
    const unchecked = this.#options.engine.dawnFeatures.find((one) => uncheckedDawnFeatures.includes(one));
    if (unchecked !== undefined) {
      throw refuse(
        `the host runs with --dawn-features ${unchecked}, without checks that keep a kernel to its own buffers; restart it without that feature`,
      );
    }
    const reason = this.#quarantineReason(kernel);
    if (reason !== undefined)
      throw refuse(`it is in quarantine (${reason}); change it and register it again`);
    if (!report.accepted) throw refuse('the gate did not accept it');
    if (kernel.isStale)
      throw refuse(
        'it was checked on another adapter, driver, model or version of the host; register it again',
      );
    if (report.unverified && !this.#options.allowUnverified) {
      throw refuse(
        'it was never compared with its oracle (parity mode off); register it under another mode, or start the host with --allow-unverified-kernels',
      );
    }
    const { mode, tolerance_scale: allowed = 1 } = this.#parityMode;
    const { scale = 1 } = report.tolerance ?? {};
    if (mode === 'strict' && scale > allowed) {
      throw refuse(
        `it was accepted with ${scale} times the usual tolerance, and the parity mode is strict with ${allowed}; register it again`,
      );
    }
    return kernel;
  }

  #quarantineReason({ report: { digest }, program }: RegisteredKernel): string | undefined {
    return this.#quarantine.reasonFor({ digest, program });
  }

  /** Dispatches of a decoded token. */
  async #countDispatches(): Promise<number> {
    const { nodes } = await this.graph();
    return new Set(nodes.map(({ component }) => component)).size;
  }

  /** A finding if the built-in kernels compute the op only together with others. */
  async #fusedBuiltin(op: string): Promise<Finding[]> {
    const { nodes } = await this.graph();
    const dispatches = Map.groupBy(nodes, ({ component }) => component);
    for (const target of this.#currentLiveModel().targets.targets) {
      if (!canBind(op, target)) continue;
      const ids = new Set(target.nodes.map(({ id }) => id));
      const [first] = nodes.filter(({ id }) => ids.has(id));
      if (!first?.kernel.startsWith('builtin:')) continue;
      const shared = dispatches.get(first.component) ?? [];
      return shared.every(({ id }) => ids.has(id)) ? [] : [fusedBuiltinFinding(target.id, first.component)];
    }
    return [];
  }

  /** Weight formats of an op's dispatches; that of the model where they read none. */
  #formatsFor(labDispatches: readonly LabDispatch[]): readonly string[] {
    const formats = formatsOf(labDispatches);
    return formats.length > 0 ? formats : [this.#options.engine.model.quantization.toLowerCase()];
  }

  #isBound(name: string): boolean {
    return this.#bindings.all.some(({ kernel }) => kernel.name === name);
  }

  #kernelSummaries(): KernelSummaries {
    return this.#registrations.all().map((registered) => {
      const reason = this.#reasonOf(registered);
      return {
        name: registered.registration.name,
        op: registered.registration.op,
        digest: registered.report.digest,
        state: this.#stateOf(registered),
        at: registered.at,
        ...(reason === undefined ? {} : { reason }),
      };
    });
  }

  #reasonOf(registered: RegisteredKernel): string | undefined {
    return stateReason(registered, this.#quarantineReason(registered));
  }

  #stateOf(registered: RegisteredKernel): KernelSummaries[number]['state'] {
    if (this.#quarantineReason(registered) !== undefined) return 'quarantined';
    const { accepted, unverified } = registered.report;
    if (!accepted) return 'rejected';
    return registered.isStale ? 'stale' : unverified ? 'unverified' : 'accepted';
  }

  /** @param kernels those that the figures are about */
  async #fingerprint(
    seed: number,
    kernels: readonly BoundKernel[] = this.#bindings.all,
  ): Promise<Fingerprint> {
    const { engine, dawn, toggles } = this.#options;
    const { adapter, runner } = engine;
    return {
      adapter: `${adapter.vendor} ${runner.gpu.model}`.trim(),
      backend: adapter.backend,
      driver: adapter.description,
      dawn,
      toggles,
      features: adapter.features,
      model: await engine.digest,
      kernels: kernelDigests(kernels),
      seed,
    };
  }

  #quarantineLostKernels(reason: string): void {
    const lostKernels = kernelsOf(this.#bindings.takeLost());
    const names = lostKernels.map(({ name }) => name).join(', ');
    this.#options.onWarning(
      `the device was lost while lab kernels were bound (${reason}); now in quarantine: ${names}`,
    );
    this.#quarantine
      .add(lostKernels, `the device was lost while it was bound: ${reason}`)
      .then(() => this.#quarantine.disarm())
      .catch((error: unknown) =>
        this.#options.onWarning(`the quarantine file could not be written: ${String(error)}`),
      );
  }
}

/** Opens the lab of a resident model and reads the quarantine of earlier processes. The child starts on first use. */
export async function openLab(options: LabOptions): Promise<ResidentLab> {
  const quarantine = await Quarantine.open(options.dataDir, (name, reason) =>
    options.onWarning(`the kernel ${name} is in quarantine: ${reason}`),
  );
  const lab = new ResidentLab(options, quarantine);
  await lab.restore();
  return lab;
}
