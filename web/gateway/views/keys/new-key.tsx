import { useState } from 'react';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { CodeBlock } from '../../../ui/copy.tsx';
import { Button, Dialog, Row } from '../../../ui/index.tsx';
import type { CreatedKey } from '../../api.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { useChange } from '../../queries.ts';
import { createKey, noSettings, type Settings, useAccountField, useSettingFields } from './key-form.tsx';

/** A button that creates a key, and then shows its secret once. */
export function NewKey({ account = '' }: { account?: string }) {
  const [isOpen, setOpen] = useState(false);
  const [created, setCreated] = useState<CreatedKey>();
  const fields = [useAccountField(), ...useSettingFields()] as const;
  const create = useChange(({ account: name, ...values }: Settings & { account: string }) =>
    createKey(name, values),
  );
  return (
    <>
      <Button kind="primary" onClick={() => setOpen(true)}>
        Create a key
      </Button>
      {isOpen && (
        <FormDialog
          title="Create a key"
          action="Create"
          fields={fields}
          initial={{ account, ...noSettings }}
          submit={async (values) => setCreated(await create.mutateAsync(values))}
          onClose={() => setOpen(false)}
        />
      )}
      {created && (
        <Dialog
          title="Copy the key now"
          isOpen
          onClose={() => setCreated(undefined)}
          footer={<Button onClick={() => setCreated(undefined)}>Close</Button>}
        >
          <p>The gateway stores only the hash of the key: it cannot show it again.</p>
          <CodeBlock code={created.key} label="API key" />
          <Row>
            <CopyButton text={created.key} label="Copy the key" />
          </Row>
        </Dialog>
      )}
    </>
  );
}
