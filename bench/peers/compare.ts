import type { GenerationTimes } from '../generation.ts';
import type { BenchModel } from '../models.ts';
import { ownCpuMs, watchOthers } from '../others.ts';
import { median, rounded } from '../statistics.ts';
import { Contestant } from './contestant.ts';
import {
  type Goal,
  type Measurement,
  type Peer,
  type PeerId,
  type PeerOptions,
  peers,
  quickly,
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
  readonly say: (what: string) => void;
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
      if (peer.runs(model)) figures.push(...(await compareOn(model, peer, options)));
      else options.say(`${model.name}: not a model for ${peer.id}`);
    }
  }
  return figures;
}

/**
 * The requested peers. Peers that were not named and cannot run are only reported.
 * @throws Error when a named peer cannot run, or when no peer can
 */
export function readyPeers(options: CompareOptions): readonly Peer[] {
  const missing: string[] = [];
  const ready = peers.filter((peer) => {
    if (options.peers && !options.peers.includes(peer.id)) return false;
    const reason = peer.missing(options);
    if (reason !== undefined) missing.push(`${peer.id} ${reason}`);
    return reason === undefined;
  });
  if (missing.length > 0 && (options.peers || ready.length === 0)) throw new Error(missing.join('\n'));
  for (const one of missing) options.say(`not compared: ${one}`);
  return ready;
}

async function compareOn(model: BenchModel, peer: Peer, options: CompareOptions): Promise<PeerFigure[]> {
  const { quick, adapter, say } = options;
  const measurements = quick ? quickly(peer.measurements(model)) : peer.measurements(model);
  const choice = adapter === undefined ? {} : { adapter };
  const theirSetting = { ...(await peer.prepare(model, options)), ...choice };
  const contestants: Contestant[] = [];
  const enter = async (
    ...[script, setting, env]: Parameters<typeof Contestant.start>
  ): Promise<Contestant> => {
    const contestant = await Contestant.start(script, setting, env);
    contestants.push(contestant);
    say(`${model.name}: warming up ${contestant.name}, which takes minutes with a cold driver cache`);
    for (const measurement of measurements) await contestant.generate(orderOf(measurement));
    return contestant;
  };
  try {
    const ours = await enter(
      new URL('./lathe.ts', import.meta.url),
      { modelPath: model.path, ...choice },
      {},
    );
    const theirs = await enter(peer.script, theirSetting, ours.software ? (peer.softwareEnv ?? {}) : {});
    const figures: PeerFigure[] = [];
    for (const measurement of measurements) {
      const others = watchOthers(() => ownCpuMs() + ours.cpuMs + theirs.cpuMs);
      const times = await takeTurns([ours, theirs], measurement, (contestant, one) =>
        say(`${model.name}: ${contestant.name} ${ratesText(measurement, one)}`),
      );
      const othersCores = others();
      for (const { name, goal, rate } of ratesOf(measurement)) {
        const [a = 0, b = 0] = times.map((list) => median(list.map(rate)));
        figures.push({
          figure: `${model.name} ${name} vs ${peer.id}`,
          ours: rounded(a),
          peer: rounded(b),
          ratio: rounded(a / b),
          goal: ours.software ? goal.software : goal.gpu,
          peerName: theirs.name,
          othersCores,
          adapters: { ours: ours.adapter, peer: theirs.adapter },
        });
      }
    }
    return figures;
  } finally {
    await Promise.all(contestants.map((one) => one.end()));
  }
}

const orderOf = ({ promptTokens, answerTokens }: Measurement): Order => ({
  context: promptTokens,
  tokens: answerTokens,
});

interface Rate {
  readonly name: string;
  readonly goal: Goal;
  /** Tokens per second. */
  readonly rate: (times: GenerationTimes) => number;
}

function ratesOf({ promptTokens, decodeGoal, prefillGoal }: Measurement): Rate[] {
  const prefill: Rate = {
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
  const { leastRounds, mostRounds, budgetMs } = measurement;
  const times: GenerationTimes[][] = contestants.map(() => []);
  const start = performance.now();
  const enough = (rounds: number) => rounds >= leastRounds && performance.now() - start >= budgetMs;
  for (let rounds = 0; rounds < mostRounds && !enough(rounds); rounds++) {
    for (const [index, contestant] of contestants.entries()) {
      const one = await contestant.generate(orderOf(measurement));
      times[index]?.push(one);
      onTime(contestant, one);
    }
  }
  return times;
}
