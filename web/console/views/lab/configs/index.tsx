import { CopyValue } from '../../../../ui/copy.tsx';
import { Badge, Button, Empty, FaultNote, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { ComparePanel } from './compare.tsx';
import { ConfigPanel } from './config-panel.tsx';
import css from './configs.module.css';
import { useConfigNames } from './queries.ts';
import { SaveForm } from './save-form.tsx';

/** Saved configs: bindings with their kernels. */
export default function Configs() {
  const [chosen, choose] = useUrlState('config');
  const names = useConfigNames();
  if (names.error) return <FaultNote error={names.error} retry={() => void names.refetch()} />;
  if (!names.data) return <Loading what="the saved configs" />;
  return (
    <div className={css['view']}>
      <SaveForm names={names.data} onSaved={choose} />
      <Panel title="Saved configs">
        {names.data.length === 0 ? (
          <Empty title="No config is saved.">
            Bind a kernel, then save the bindings. A config holds bindings, kernel sources and gate reports,
            signed by this host.
          </Empty>
        ) : (
          <Table
            caption="All saved configs"
            rows={names.data}
            keyOf={(name) => name}
            isSelected={(name) => name === chosen}
            columns={[
              { key: 'name', head: 'Name', cell: (name) => <strong>{name}</strong> },
              {
                key: 'start',
                head: 'Start command',
                cell: (name) => (
                  <CopyValue
                    value={`node dist/host.js --gpu --kernels ${name}`}
                    label={`the start command of ${name}`}
                  />
                ),
              },
              {
                key: 'show',
                head: 'Show',
                cell: (name) =>
                  name === chosen ? (
                    <Badge>shown below</Badge>
                  ) : (
                    <Button aria-label={`Show ${name}`} onClick={() => choose(name)}>
                      Show
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Panel>
      {chosen !== '' && <ConfigPanel key={chosen} name={chosen} />}
      {names.data.length > 0 && <ComparePanel names={names.data} />}
    </div>
  );
}
