import DefaultTheme from 'vitepress/theme';
import './style.css';

// VitePress reads the theme from a default export.
// biome-ignore lint/style/noDefaultExport: required by vitepress
export default DefaultTheme;
