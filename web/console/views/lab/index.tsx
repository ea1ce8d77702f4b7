import { Empty, Page } from '../../parts/index.tsx';

export default function View() {
  return (
    <Page title="lab">
      <Empty title="Nothing here yet." />
    </Page>
  );
}
