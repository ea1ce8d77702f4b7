import type { GenerationTimes } from '../generation.ts';
import type { BenchModel } from '../models.ts';
import { ownCpuMs, watchOtherLoad } from '../cpu-load.ts';
import { median, roundFigure } from '../statistics.ts';
import { Contestant } from './contestant.ts';
import {
  type Goal,
  type Measurement,
  type Peer,
  type PeerId,
  type PeerOptions,
  peers,
  quickMeasurements,
} from './peers.ts';
import type { Order } from './protocol.ts';

/** One figure, measured for lathe and a peer. */
export interface PeerFigure {
  /** Model, measurement and peer: `tiny decode t/s vs llama.cpp`. */
  readonly figure: string;
  readonly ours: number;
  readonly peer: number;
  /** `ours / peer`: higher is better. */
  readonly ratio: number;
  /** Goal of the ratio on this kind of adapter; null: no goal. */
  readonly goal: number | null;
  /** Name with version. */
  readonly peerName: string;
  /** Cores that other processes kept busy on average; 0 on an idle machine. */
  readonly othersCores: number;
  /** Name of the adapter, as each side reports it. */
  readonly adapters: { readonly ours: string; readonly peer: string };
}

export interface CompareOptions extends PeerOptions {
  readonly quick: boolean;
  readonly adapter: string | undefined;
  readonly logProgress: (what: string) => void;
  /** Default: all that can run. */
  readonly peers?: readonly PeerId[] | undefined;
}

/**
 * Compares lathe with each peer on the same models and adapter. Each contestant is a separate process that computes
 * only on request; contestants alternate, so that other load on the machine affects both. A peer is compared on the
 * models that it can run.
 * @throws Error when a named peer cannot run, or when no peer can
 */
export async function comparePeers(
  models: readonly BenchModel[],
  options: CompareOptions,
): Promise<PeerFigure[]> {
  const figures: PeerFigure[] = [];
  for (const peer of readyPeers(options)) {
    for (const model of models) {
      if (peer.supports(model)) figures.push(...(await compareOn(model, peer, options)));
      else options.logProgress(`${model.name}: not a model for ${peer.id}`);
    }
  }
  return figures;
}

/**
 * The requested peers. Peers that were not named and cannot run are only reported.
 * @throws Error when a named peer cannot run, or when no peer can
 */
export function readyPeers(options: CompareOptions): readonly Peer[] {
  const problems: string[] = [];
  const ready = peers.filter((peer) => {
    if (options.peers && !options.peers.includes(peer.id)) return false;
    const reason = peer.missing(options);
    if (reason !== undefined) problems.push(`${peer.id} ${reason}`);
    return reason === undefined;
  });
  if (problems.length > 0 && (options.peers || ready.length === 0)) throw new Error(problems.join('\n'));
  for (const problem of problems) options.logProgress(`not compared: ${problem}`);
  return ready;
}

async function compareOn(model: BenchModel, peer: Peer, options: CompareOptions): Promise<PeerFigure[]> {
  const { quick, adapter, logProgress } = options;
  const measurements = quick ? quickMeasurements(peer.measurements(model)) : peer.measurements(model);
  const adapterOption = adapter === undefined ? {} : { adapter };
  const peerSetting = { ...(await peer.prepare(model, options)), ...adapterOption };
  const contestants: Contestant[] = [];
  const startContestant = async (
    ...[script, setting, env]: Parameters<typeof Contestant.start>
  ): Promise<Contestant> => {
    const contestant = await Contestant.start(script, setting, env);
    contestants.push(contestant);
    logProgress(`${model.name}: warming up ${contestant.name}, which takes minutes with a cold driver cache`);
    for (const measurement of measurements) await contestant.generate(toOrder(measurement));
    return contestant;
  };
  try {
    const ours = await startContestant(
      new URL('./lathe.ts', import.meta.url),
      { modelPath: model.path, ...adapterOption },
      {},
    );
    const peerContestant = await startContestant(
      peer.script,
      peerSetting,
      ours.software ? (peer.softwareEnv ?? {}) : {},
    );
    const figures: PeerFigure[] = [];
    for (const measurement of measurements) {
      const stopWatching = watchOtherLoad(() => ownCpuMs() + ours.cpuMs + peerContestant.cpuMs);
      const times = await takeTurns([ours, peerContestant], measurement, (contestant, one) =>
        logProgress(`${model.name}: ${contestant.name} ${ratesText(measurement, one)}`),
      );
      const othersCores = stopWatching();
      for (const { name, goal, rate } of ratesOf(measurement)) {
        const [a = 0, b = 0] = times.map((list) => median(list.map(rate)));
        figures.push({
          figure: `${model.name} ${name} vs ${peer.id}`,
          ours: roundFigure(a),
          peer: roundFigure(b),
          ratio: roundFigure(a / b),
          goal: ours.software ? goal.software : goal.gpu,
          peerName: peerContestant.name,
          othersCores,
          adapters: { ours: ours.adapter, peer: peerContestant.adapter },
        });
      }
    }
    return figures;
  } finally {
    await Promise.all(contestants.map((one) => one.end()));
  }
}

const toOrder = ({ promptTokens, answerTokens }: Measurement): Order => ({
  context: promptTokens,
  tokens: answerTokens,
});

interface RateDefinition {
  readonly name: string;
  readonly goal: Goal;
  /** Tokens per second. */
  readonly rate: (times: GenerationTimes) => number;
}

function ratesOf({ promptTokens, decodeGoal, prefillGoal }: Measurement): RateDefinition[] {
  const prefill: RateDefinition = {
    name: `prefill ${promptTokens} t/s`,
    goal: prefillGoal,
    rate: ({ firstTokenMs }) => (promptTokens * 1000) / firstTokenMs,
  };
  if (!decodeGoal) return [prefill];
  return [{ name: 'decode t/s', goal: decodeGoal, rate: ({ perTokenMs }) => 1000 / perTokenMs }, prefill];
}

const ratesText = (measurement: Measurement, times: GenerationTimes): string =>
  ratesOf(measurement)
    .map(({ name, rate }) => `${name} ${rate(times).toFixed(2)}`)
    .join(', ');

/** Sends the same order to the contestants in turn, round after round. @returns the times of each */
async function takeTurns(
  contestants: readonly Contestant[],
  measurement: Measurement,
  onTime: (contestant: Contestant, one: GenerationTimes) => void,
): Promise<GenerationTimes[][]> {
  const { minRounds, maxRounds, budgetMs } = measurement;
  const times: GenerationTimes[][] = contestants.map(() => []);
  const start = performance.now();
  const isDone = (rounds: number) => rounds >= minRounds && performance.now() - start >= budgetMs;
  for (let rounds = 0; rounds < maxRounds && !isDone(rounds); rounds++) {
    for (const [index, contestant] of contestants.entries()) {
      const one = await contestant.generate(toOrder(measurement));
      times[index]?.push(one);
      onTime(contestant, one);
    }
  }
  return times;
}
