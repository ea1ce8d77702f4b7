import { Link } from 'wouter';
import { Fault } from '../../../../api/client.ts';
import { CopyValue } from '../../../../ui/copy.tsx';
import { formatBytes, formatTime } from '../../../../ui/format.ts';
import { Empty, Facts, FaultNote, Loading, Panel } from '../../../../ui/index.tsx';
import { kernelPath, shortDigest } from '../kernels/paths.ts';
import { slotOf } from '../graph/graph-model.ts';
import css from './bench.module.css';
import { Outcome } from './outcome.tsx';
import { useBench } from './queries.ts';
import { RooflineChart } from './roofline-chart.tsx';
import { RoundsChart } from './rounds-chart.tsx';

/** `/console/lab/bench/<id>`: a finished bench. */
export function BenchPage({ id }: { id: string }) {
  const bench = useBench(id);
  const back = <Link href="/console/lab/bench">All benches</Link>;
  if (bench.error instanceof Fault && bench.error.code === 'unknown_bench')
    return (
      <Empty title={`This host has no bench ${id} with its raw times.`}>
        The newest 200 are kept. {back} are listed with their verdicts.
      </Empty>
    );
  if (bench.error) return <FaultNote error={bench.error} retry={() => void bench.refetch()} />;
  if (!bench.data) return <Loading what="the bench" />;
  const { result, rounds, kernels, machine, at, mode, model } = bench.data;
  const most = rounds.length;
  return (
    <>
      <Panel title={`Bench of ${formatTime(at)}`} tools={back}>
        <Facts
          facts={[
            [
              'Kernels',
              kernels.length === 0
                ? 'built-in kernels, compared with themselves'
                : kernels.map(({ name, digest, components }) => (
                    <div key={name} className={css['kernel']}>
                      <Link href={kernelPath(digest)}>{name}</Link>{' '}
                      <CopyValue value={digest} label={`the digest of ${name}`}>
                        {shortDigest(digest)}
                      </CopyValue>{' '}
                      on {[...new Set(components.map(slotOf))].join(', ')}
                    </div>
                  )),
            ],
            ['Model', model],
            ['Mode', mode],
            [
              'Machine',
              `${machine.cpu}, ${machine.cores} cores, ${formatBytes(machine.memory_bytes)}, ${machine.os}, lathe ${machine.lathe}`,
            ],
          ]}
        />
        <RoundsChart
          rounds={rounds.map((samples, index) => ({
            stage: 'round',
            round: index + 1,
            least: most,
            most,
            samples,
          }))}
        />
        <Outcome result={result} />
      </Panel>
      <Panel title="Roofline">
        <RooflineChart result={result} />
      </Panel>
    </>
  );
}
