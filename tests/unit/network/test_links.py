from urllib.parse import quote

from harness.network.links import client_link, links_around, links_between, peer_link, proxy_name


def test_a_pair_has_four_links() -> None:
    assert links_between(1, 2) == ["peer:1->2:int", "peer:1->2:ctl", "peer:2->1:int", "peer:2->1:ctl"]


def test_a_broker_is_surrounded_by_the_links_to_all_its_peers() -> None:
    assert links_around(2, (1, 2, 3)) == links_between(2, 1) + links_between(2, 3)


def test_names_of_proxies_can_stand_in_urls_and_differ() -> None:
    links = [
        *links_around(1, (1, 2, 3)),
        client_link("w0", 1),
        client_link("w0", 11),
        peer_link(1, 11, "int"),
    ]
    names = [proxy_name(link) for link in links]
    assert len(set(names)) == len(links)
    assert [quote(name, safe="") for name in names] == names
