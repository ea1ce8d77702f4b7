import { Link } from 'wouter';
import { Empty, Panel } from '../../../ui/index.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { useRequests } from '../../queries.ts';
import { RequestTable } from '../receipts/request-table.tsx';

const shown = 5;

export function RecentFailures() {
  return (
    <Panel
      title="Latest failed requests"
      tools={<Link href="/receipts?failed=true">All failed requests</Link>}
    >
      <Loaded read={useRequests({ failed: 'true' }, shown)} what="the failed requests">
        {({ pages }) =>
          pages[0] === undefined || pages[0].length === 0 ? (
            <Empty title="No request has failed.">Failed and refused requests are listed here.</Empty>
          ) : (
            <RequestTable caption="Latest failed requests" requests={pages[0]} />
          )
        }
      </Loaded>
    </Panel>
  );
}
