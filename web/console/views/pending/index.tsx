import { Empty, Page } from '../../parts/index.tsx';

export default function View() {
  return (
    <Page title="pending">
      <Empty title="Nothing here yet." />
    </Page>
  );
}
