import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api, held } from '../../api/client.ts';
import { Facts, FaultNote, Loading, Page, Panel } from '../../parts/index.tsx';

/** What is running here. */
export function Home() {
  const info = useQuery({ queryKey: ['info'], queryFn: () => held(api.GET('/host/v1/info')) });
  return (
    <Page title="This host" lead="One resident model, the kernels it runs on, and what works with it.">
      <Panel title="Host">
        {info.isPending && <Loading what="the host's facts" />}
        {info.isError && <FaultNote error={info.error} retry={() => void info.refetch()} />}
        {info.data && (
          <Facts
            facts={Object.entries(info.data)
              .filter(([, value]) => typeof value !== 'object')
              .map(([name, value]) => [name.replaceAll('_', ' '), String(value)])}
          />
        )}
        <p>
          <Link href="/console/chat">Chat with the model</Link>
        </p>
      </Panel>
    </Page>
  );
}
