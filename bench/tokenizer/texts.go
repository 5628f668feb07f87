package main

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	common = strings.Fields(`the of and to a in is that for it as was with be by on not he his but at are this have from or had an they which
one you were all her she there would their we him been has when who will no more if out so up said what its about than into
them can only other time new some could these two may first then do any like my now over such our man me even most made
after also did many off before must well back through years much where your way down should because long each just state people
those too mr how little good world make very year still see own work men day get here old between both life being under
three never`)
	heads = strings.Fields(`con pre re un inter ex de in dis per pro sub trans over out com ad ob ab en`)
	stems = strings.Fields(`form port tract struct spect duc mit fer scrib pos cept vert press sist pend ject clud solv nect grad mov sens
fin claim serv tend sign mand pel vok`)
	tails        = []string{"", "s", "ed", "ing", "ion", "ions", "er", "ers", "able", "ment", "ments", "ive", "or", "ation", "ations", "al", "ally", "ness", "ity", "ful"}
	contractions = []string{"don't", "it's", "we'll", "they're", "I've"}
)

// english is made of frequent words and of longer ones put together from parts. It is the text of the reference measurements.
func english() string {
	g := generator(42)
	var b strings.Builder
	capital := true
	for b.Len() < textSize {
		var w string
		switch r := g.draw(100); {
		case r < 62:
			w = common[min(g.draw(len(common)), g.draw(len(common)))]
		case r < 94:
			w = heads[g.draw(len(heads))]
			w += stems[g.draw(len(stems))]
			w += tails[g.draw(len(tails))]
		case r < 97:
			w = strconv.Itoa(g.draw(int(math.Pow10(1 + g.draw(5)))))
		default:
			w = contractions[g.draw(len(contractions))]
		}
		if capital {
			w = strings.ToUpper(w[:1]) + w[1:]
			capital = false
		}
		switch e := g.draw(100); {
		case e < 84:
			w += " "
		case e < 91:
			w += ", "
		case e < 98:
			w += ". "
			capital = true
		default:
			w += ".\n\n"
			capital = true
		}
		b.WriteString(w)
	}
	return b.String()[:textSize]
}

var hanzi = strings.Fields(`的 一 是 了 我 不 在 人 们 有 来 他 这 上 着 个 地 到 大 里 说 就 去 子 得 也 和 那 要 下 看 天 时 过 出 小 么 起 你 都 把 好 还
多 没 为 又 可 家 学 只 以 主 会 样 年 想 生 同 老 中 十 从 自 面 前 头 道 它 后 然 走 很 像 见 两 用 她 国 动 进 成 回 什 边 作 对 开 而 己 些 现 山 民 候 经 发 工 向 事 命 给 长
水 几 义 三 声 于 高 手 知 理 眼 志 点 心 战 二 问 但 身 方 实 吃 做 叫 当 住 听 革 打 呢 真 全 才 四 已 所 敌 之 最 光 产 情 路 分 总 条 白 话 东 席 次 亲 如 被 花 口 放 儿 常
气 五 第 使 写 军 吧 文 运 再 果 怎 定 许 快 明 行 因 别 飞 外 树 物 活 部 门 无 往 船 望 新 带 队 先 力 完 却 站 代 员 机 更 九 您 每 风 级 跟 笑 啊 孩 万 少 直 意 夜 比 阶 连
车 重 便 斗 马 哪 化 太 指 变 社 似 士 者 干 石 满 日 决 百 原 拿 群 究 各 六 本 思 解 立 河 村 八 难 早 论 吗 根 共 让 相 研 今 其 书 坐 接 应 关 信 觉 步 反 处 记 将 千 找 争
领 或 师 结 块 跑 谁 草 越 字 加 脚 紧 爱 等 习 阵 怕 月 青 半 火 法 题 建 赶 位 唱 海 七 女 任 件 感 准 张 团 屋 离 色 脸 片 科 倒 睛 利 世 刚 且 由 送 切 星 导 晚 表 够 整 认 响
雪 流 未 场 该 并 底 深 刻 平 伟 忙 提 确 近 亮 轻 讲 农 古 黑 告 界 拉 名 呀 土 清 阳 照 办 史 改 历 转 画 造 嘴 此 治 北 必 服 雨 穿 内 识 验 传 业 菜 爬 睡 兴 形 量 咱 观 苦
我们 他们 自己 什么 没有 这个 知道 现在 时候 问题 中国 社会 工作 生活 发展 经济 学习 学生 老师 世界 国家 人民 政府 公司 技术 研究 系统 方法 数据 模型 语言 训练 结果 认为 因为 所以 但是 如果 已经
可以 可能 需要 应该 希望 开始 继续 影响 重要 主要 不同 一些 许多 非常 通过 进行 使用 提供 实现 计算机 大学 科学 历史 文化 环境 北京 上海 互联网 人工智能 机器学习`)

// chinese is made of frequent characters and words, with the lengths of clauses and the punctuation of prose.
func chinese() string {
	g := generator(43)
	var b strings.Builder
	for b.Len() < textSize {
		for range 3 + g.draw(12) {
			if g.draw(10) < 6 { // frequent characters come first
				b.WriteString(hanzi[min(g.draw(len(hanzi)), g.draw(len(hanzi)))])
			} else {
				b.WriteString(hanzi[len(hanzi)-1-g.draw(80)])
			}
		}
		switch e := g.draw(100); {
		case e < 60:
			b.WriteString("，")
		case e < 90:
			b.WriteString("。")
		case e < 93:
			b.WriteString("？")
		case e < 96:
			b.WriteString(strconv.Itoa(g.draw(3000)) + "年")
		default:
			b.WriteString("。\n")
		}
	}
	end := textSize
	text := b.String()
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
