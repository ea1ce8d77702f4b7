import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Badge, Loading } from '../../../ui/index.tsx';
import { RackPanel } from './rack-panel.tsx';
import { useRacks } from './recorder.ts';
import css from './recorder.module.css';

export function Racks() {
  const racks = useRacks();
  if (racks.isPending) return <Loading what="the racks" />;
  if (racks.isError)
    return <ProtectedRouteFault what="the racks" error={racks.error} retry={() => void racks.refetch()} />;
  const { data, warnings } = racks.data;
  return (
    <>
      {warnings.map((warning) => (
        <p key={warning} role="status">
          <Badge tone="warn">warning</Badge> {warning}
        </p>
      ))}
      <div className={css['racks']}>
        {data.map((rack) => (
          <RackPanel key={rack.id} rack={rack} />
        ))}
      </div>
    </>
  );
}
