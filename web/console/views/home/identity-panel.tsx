import { CopyValue } from '../../../ui/copy.tsx';
import { Badge, Facts, Panel, Row } from '../../../ui/index.tsx';
import css from './home.module.css';
import type { Info } from './info.ts';

const tierTexts = {
  none: 'none: commands of agents are not sandboxed',
  path: 'path: tools are limited to the granted paths',
  os_sandbox: 'OS sandbox: commands of agents run sandboxed',
};

/** Versions, digests, ids and the adapter; folded, because few need them. */
export const IdentityPanel = ({ info }: { info: Info }) => (
  <Panel className={css['wide']}>
    <details className={css['details']}>
      <summary>Identity and adapter</summary>
      <div className={css['identity']}>
        <div>
          <h2>Host</h2>
          <Facts
            facts={[
              ['Version', info.host_version],
              ['Contract', info.contract_version],
              ['Endpoint', <CopyValue key="id" value={info.endpoint_id} label="the endpoint's id" />],
              ['Agent model', info.planner.disclosure],
              ['Enforcement tier', tierTexts[info.enforcement_tier]],
              ...(info.receipt_key
                ? ([
                    [
                      'Receipt key',
                      <CopyValue key="key" value={info.receipt_key.key_id} label="the receipt key's id" />,
                    ],
                  ] as const)
                : []),
              ...(info.model
                ? ([
                    [
                      'Model digest',
                      <CopyValue key="digest" value={info.model.digest} label="the model's digest" />,
                    ],
                  ] as const)
                : []),
            ]}
          />
        </div>
        <div>
          <h2>Adapter</h2>
          {info.adapter ? (
            <>
              <Facts
                facts={[
                  ['Device', info.adapter.description],
                  ['Backend', info.adapter.backend],
                  ['Vendor', info.adapter.vendor],
                ]}
              />
              <Row>
                {info.adapter.features.map((feature) => (
                  <Badge key={feature}>{feature}</Badge>
                ))}
              </Row>
            </>
          ) : (
            <p>No adapter is in use. The host opens one when it loads a model.</p>
          )}
        </div>
      </div>
    </details>
  </Panel>
);
