import { useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { api, unwrap } from '../../../../api/client.ts';
import { formatTime } from '../../../../ui/format.ts';
import { Button, Empty, FaultNote, Loading, Panel } from '../../../../ui/index.tsx';
import { useBenchRuns } from '../bench-runs.tsx';
import { latestResult } from './runs.ts';
import { BenchHistory } from './bench-history.tsx';
import { BenchPage } from './bench-page.tsx';
import css from './bench.module.css';
import { ComparePage } from './compare-page.tsx';
import { CurrentBindings } from './current-bindings.tsx';
import { Outcome } from './outcome.tsx';
import { RooflineChart } from './roofline-chart.tsx';
import { RoundsChart } from './rounds-chart.tsx';
import { RunForm } from './run-form.tsx';

/** `/console/lab/bench`: benches. `/console/lab/bench/<id>`: a finished one. `/console/lab/bench/compare`: two of them. */
export default function Bench() {
  const [location] = useLocation();
  const segment = location.split('/')[4] ?? '';
  if (segment === '') return <NewBench />;
  return (
    <div className={css['body']}>
      {segment === 'compare' ? <ComparePage /> : <BenchPage key={segment} id={decodeURIComponent(segment)} />}
    </div>
  );
}

/** Compares bound kernels with the built-ins and with the roofline of the adapter. */
function NewBench() {
  const parts = useQuery({ queryKey: ['lab', 'parts'], queryFn: () => unwrap(api.GET('/lab/v1/parts')) });
  const { runs, running, measure } = useBenchRuns();
  const benches = runs.filter(({ isMeasureOnly: isMeasure }) => !isMeasure);
  const run = benches.at(-1);
  const rooflineResult = run?.result ?? latestResult(runs);
  if (parts.isPending) return <Loading what="the bindings" />;
  if (parts.isError) {
    return (
      <div className={css['body']}>
        <FaultNote error={parts.error} retry={() => void parts.refetch()} />
      </div>
    );
  }
  const title = run && run.endedAt !== undefined ? `Bench of ${formatTime(run.endedAt)}` : 'This bench';
  return (
    <div className={css['body']}>
      <div className={css['top']}>
        <CurrentBindings parts={parts.data} />
        <RunForm />
      </div>
      {run && (
        <Panel title={title}>
          {run.error !== undefined && <FaultNote error={run.error} />}
          {run.wasStopped && <p>The bench was stopped. There is no verdict.</p>}
          {run.rounds.length === 0 && run.endedAt === undefined && (
            <p>Rounds are plotted here as they finish, after a few seconds of preparation.</p>
          )}
          {run.rounds.length > 0 && <RoundsChart rounds={run.rounds} />}
          {run.result && <Outcome result={run.result} />}
        </Panel>
      )}
      <Panel
        title="Roofline"
        tools={
          <Button busy={running !== undefined} onClick={measure}>
            {rooflineResult ? 'Measure again' : 'Measure the components'}
          </Button>
        }
      >
        {rooflineResult === undefined ? (
          <Empty title="No measurements yet.">
            Measure the components, or run a bench: both measure the peak rates of the adapter and the rates
            of each component. Without a verdict it takes a few seconds.
          </Empty>
        ) : (
          <RooflineChart result={rooflineResult} />
        )}
      </Panel>
      <BenchHistory />
    </div>
  );
}
